"""DivPrune: diversity-based visual token pruning (arXiv 2503.02175)."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import farthest_point


@dataclass(frozen=True, kw_only=True)
class DivPrune(Method):
    """Keep the tokens that are farthest from each other as they enter the decoder."""

    name: ClassVar[str] = "divprune"
    stage: ClassVar[Stage] = Stage.ENCODER
    reference: ClassVar[Reference] = Reference(
        title="DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models",
        arxiv="2503.02175",
        repository="vbdi/divprune",
        commit="799e2d950aa01ba7860907f5a6d86061f885dca6",
        licence="CC BY-NC 4.0",
        note="The rule is written from its description, not from the code. The released code works with LLaVA's prompt "
        "only: the place where the picture begins is fixed, and it prunes one sample at a time. LightCompress's port "
        "to Qwen uses position ids as cache positions too, so that a query may see later tokens. Here it does not.",
    )

    def select(self, view: View) -> Selection:
        """Farthest points of the projected tokens, by cosine distance. On LLaVA-NeXT newlines are candidates too."""
        return Selection(tuple(farthest_point(sample.features, sample.budget) for sample in view.samples))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the similarity of all pairs. The comparisons after it multiply nothing."""
        return sizes.visual * sizes.visual * shape.hidden
