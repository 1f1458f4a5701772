"""`trio-profile methods`: the pruning methods, by the facts that their classes declare."""

from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form
from trio_profile.optional import require_run

if TYPE_CHECKING:
    from trio_profile.records.facts import MethodFacts


def command(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD", help="List only these: names, package.module:Class, or two with a +."),
    ] = None,
    *,
    form: Form,
) -> None:
    """List the pruning methods: what each does, where it acts, what it needs, and what its selection costs.

    The cost is declared by the method, not measured. It is the work of all its selections at the size of LLaVA-1.5-7B
    (576 visual and 60 text tokens, a third kept on average), as a share of one dense decoder layer.

    A + combines a method that acts before the decoder with one that acts inside it: visionzip+trio.
    """
    from trio_profile.inputs import catalogue
    from trio_profile.report import listing

    rows = [_facts(method) for method in name or catalogue.method_names()]
    documents = [{field: value for field, value in vars(row).items() if field != "selection_share"} for row in rows]
    printing.show(form, lambda: printing.listed(methods=documents), lambda: listing.methods(rows))


def _facts(name: str) -> "MethodFacts":
    """The facts of a method. A class that is not in the catalogue is imported, which needs torch."""
    from trio_profile.inputs import catalogue

    if name in catalogue.methods():
        return catalogue.methods()[name]
    require_run("methods", ("torch", "transformers"))
    catalogue.require_method(name)
    from trio_core import methods

    return catalogue.facts_of(methods.find(name))
