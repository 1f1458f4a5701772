"""`trio-profile methods`: the pruning methods, by the facts that their classes declare."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import JSON, LATEX, MARKDOWN
from trio_profile.optional import require_run

if TYPE_CHECKING:
    from trio_profile.records.facts import MethodFacts


def command(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD", help="List only these: names, package.module:Class, or two with a +."),
    ] = None,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """List the pruning methods: what each does, where it acts, what it needs, and what its selection costs.

    The cost is declared by the method, not measured. It is the work of all its selections at the size of LLaVA-1.5-7B
    (576 visual and 60 text tokens, a third kept on average), as a share of one dense decoder layer.

    A + combines a method that acts before the decoder with one that acts inside it: visionzip+trio.
    """
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile.findings import listing
    from trio_profile.inputs import catalogue

    rows = [_facts(one) for one in name or catalogue.method_names()]
    printing.show(
        form, lambda: printing.listed(methods=[_document(row) for row in rows]), lambda: listing.methods(rows)
    )


def _facts(name: str) -> "MethodFacts":
    """The facts of a method. A class that is not in the catalogue is imported, which needs torch."""
    from trio_profile.inputs import catalogue

    if name in catalogue.methods():
        return catalogue.methods()[name]
    require_run("methods", ("torch", "transformers", "trio_core"))
    catalogue.require_method(name)
    from trio_core import methods

    return catalogue.facts_of(methods.find(name))


def _document(facts: "MethodFacts") -> dict[str, Any]:
    document = {**vars(facts), "options": list(facts.options)}
    del document["selection_share"]
    return document
