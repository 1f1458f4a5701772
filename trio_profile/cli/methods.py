"""`trio-profile methods`: the pruning methods, by the facts that their classes declare."""

from typing import TYPE_CHECKING, Any

from trio_profile.cli import printing
from trio_profile.cli.options import JSON, LATEX, MARKDOWN
from trio_profile.extras import require_run

if TYPE_CHECKING:
    from trio_core.methods.method import Method
    from trio_profile.findings.listing import MethodRow

RETENTION = 1 / 3
"""The retention used for the declared cost; every method can reach it."""
VISUAL_TOKENS, TEXT_TOKENS, TEXT_AFTER = 576, 60, 25
"""The input used for the declared cost."""


def command(
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """List the pruning methods: what each does, where it acts, what it needs, and what its selection costs.

    The cost is declared by the method, not measured. It is the work of all its selections at the size of LLaVA-1.5-7B
    (576 visual and 60 text tokens, a third kept on average), as a share of one dense decoder layer.
    """
    form = printing.form(json=json, markdown=markdown, latex=latex)
    require_run("methods")
    from trio_core import methods
    from trio_profile.findings import listing

    classes = [methods.find(name) for name in methods.names()]
    printing.show(
        form,
        lambda: printing.listed(methods=[_document(cls) for cls in classes]),
        lambda: listing.methods([_row(cls) for cls in classes]),
    )


def selection_cost(cls: "type[Method]") -> tuple[int, float]:
    """The declared MACs of a method's selections, and their share of one dense decoder layer.

    Both are at the size of LLaVA-1.5-7B.
    """
    from trio_core.rules.cost import LayerShape
    from trio_profile.cost.formula import layer_macs

    shape = LayerShape(4096, 11008, 4096, 4096, 32, 32064, 3, vision_hidden=1024, vision_heads=16, patches=576)
    method = cls(retention=RETENTION)
    macs = method.selection_macs(shape, method.schedule(VISUAL_TOKENS, 32), TEXT_TOKENS, TEXT_AFTER)
    return macs, macs / layer_macs(VISUAL_TOKENS + TEXT_TOKENS, shape)


def _document(cls: "type[Method]") -> dict[str, Any]:
    from dataclasses import asdict

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
