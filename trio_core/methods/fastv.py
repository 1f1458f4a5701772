"""FastV: an image is worth half its tokens after layer 2 (arXiv 2403.06764)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Reference, ScoreMethod
from trio_core.methods.view import Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.tensors import ScoresN


@dataclass(frozen=True, kw_only=True)
class FastV(ScoreMethod):
    """Keep the visual tokens that the last token attends to most in the layer that has just run.

    Only this one row of attention is computed.
    """

    name: ClassVar[str] = "fastv"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    paper_layers: ClassVar[tuple[int, ...]] = (2,)
    scales_layers: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference(
        title="An Image is Worth 1/2 Tokens After Layer 2: Plug-and-Play Inference Acceleration for Large VLMs",
        arxiv="2403.06764",
        repository="pkunlp-icler/FastV",
        commit="d1659729b5bf1be225e99ee15783deeea80f63b1",
        licence="none stated",
        note="The paper averages the attention of all tokens. The code takes the last token's attention, and so does "
        "this method. The code keeps round(N · (1 − r)) tokens after its layer, and budget_rule='after-prune' does so. "
        "You cannot select anew at each new token, as the code without a cache does.",
    )

    def score(self, view: View) -> Sequence[ScoresN]:
        """The last token's attention in the layer that has just run, averaged over the heads."""
        return view.attention_of_last("current")

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the one row."""
        return shape.attention_row_macs(sizes.tokens)
