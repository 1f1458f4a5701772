"""DivPrune: diversity-based visual token pruning (arXiv 2503.02175)."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import farthest_point


@dataclass(frozen=True, kw_only=True)
class DivPrune(Method):
    """Keep the tokens that are farthest from each other as they enter the decoder, whatever is asked of the picture."""

    name: ClassVar[str] = "divprune"
    stage: ClassVar[Stage] = Stage.ENCODER
    reference: ClassVar[Reference] = Reference(
        title="DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models",
        arxiv="2503.02175",
        repository="vbdi/divprune",
        commit="799e2d950aa01ba7860907f5a6d86061f885dca6",
        note="Its code is CC BY-NC 4.0 (non-commercial); the rule is restated here from its description.",
    )

    def select(self, view: View) -> Selection:
        """Farthest points of the projected tokens, by cosine distance."""
        return Selection(tuple(farthest_point(view.features(b), p.budget) for b, p in enumerate(view.pictures)))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the similarity of every pair; what is compared afterwards multiplies nothing."""
        return sizes.visual * sizes.visual * shape.hidden
