"""PyramidDrop: a pyramid of visual redundancy reduction (arXiv 2410.17247)."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.attention import attention_row
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers, default_layers
from trio_core.rules.selection import top_k


@dataclass(frozen=True, kw_only=True)
class PyramidDrop(Method):
    """Drop at several depths the visual tokens that the last token would attend to least in the layer that comes next.

    Its budgets halve from stage to stage. The published layers, 8, 16 and 24 of 32, cannot average below a quarter of
    the tokens; the author's advice for less is layers (2, 8, 16).
    """

    name: ClassVar[str] = "pyramiddrop"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    proportion: ClassVar[tuple[int, ...]] = (4, 2, 1)
    reference: ClassVar[Reference] = Reference(
        title="PyramidDrop: Accelerating Your Large Vision-Language Models via Pyramid Visual Redundancy Reduction",
        arxiv="2410.17247",
        repository="Cooperx521/PyramidDrop",
        commit="6444f304aee4b7edcb022839fb9e8cd07859704a",
        note="Its code projects queries, keys and values of all tokens for the one row; here only the keys. It "
        "renumbers positions: positions='compact' does so.",
    )

    def default_layers(self, num_layers: int) -> Layers:
        """After 8, 16 and 24 layers of 32, and in proportion elsewhere."""
        return default_layers(num_layers, (8, 16, 24))

    def select(self, view: View) -> Selection:
        """Rank by the last token's row of attention in the next layer, all heads averaged; ties to the lower index."""
        row_BS = attention_row(view.probed("next"), view.supervised_rows(1, "last"), view.valid)
        scores = tuple(row_BS[b, picture.rows] for b, picture in enumerate(view.pictures))
        return Selection(tuple(top_k(s, p.budget) for s, p in zip(scores, view.pictures, strict=True)), scores)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the one row."""
        return shape.attention_row_macs(sizes.tokens)
