"""`trio-profile methods`: the pruning methods, by the facts that their classes declare."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trio_profile.cli import printing
from trio_profile.cli.options import JSON, LATEX, MARKDOWN
from trio_profile.optional import require_run

if TYPE_CHECKING:
    from trio_core.methods.method import Method
    from trio_profile.findings.listing import MethodRow


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
    require_run("methods", ("torch", "transformers", "trio_core"))
    from trio_core import methods
    from trio_profile.findings import listing

    classes = [methods.find(one) for one in name or methods.names()]
    printing.show(
        form,
        lambda: printing.listed(methods=[_document(cls) for cls in classes]),
        lambda: listing.methods([_row(cls) for cls in classes]),
    )


def _document(cls: "type[Method]") -> dict[str, Any]:
    from dataclasses import asdict

    from trio_profile.profilers.declared import selection_cost

    return {
        "name": cls.name,
        "summary": cls.summary(),
        "stage": cls.stage,
        "needs": sorted(cls.needs),
        "selection_macs": selection_cost(cls)[0],
        "options": cls.option_names(),
        "reference": asdict(cls.reference),
        "remark": cls.reference.remark,
    }


def _row(cls: "type[Method]") -> "MethodRow":
    from trio_profile.findings.listing import MethodRow
    from trio_profile.profilers.declared import selection_cost

    reference = cls.reference
    return MethodRow(
        name=cls.name,
        acts_at=cls.stage,
        needs=sorted(cls.needs),
        selection_share=selection_cost(cls)[1],
        summary=cls.summary(),
        source=f"arXiv {reference.arxiv}" if reference.arxiv else reference.repository or reference.title,
        remark=reference.remark,
    )
