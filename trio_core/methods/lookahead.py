"""TRIO with attention as its score: a control that shows what TRIO's gradient adds."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.method import Reference
from trio_core.methods.probing import Probing
from trio_core.methods.view import Signal, View
from trio_core.rules.attention import LayerCall, attend
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.tensors import Places, ScoresBN


@dataclass(frozen=True, kw_only=True)
class Lookahead(Probing):
    """Keep what the last rows attend to most in the next layer, without near-duplicates.

    Everything is as in `Trio` except the score: here the attention weights of the supervised rows, averaged over heads
    and rows.
    """

    name: ClassVar[str] = "lookahead"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; TRIO (arXiv 2602.04657) with attention for its score",
        kind="control",
        note="Unlike FastV it looks at the next layer and at four rows, and it drops near-duplicates. TRIO differs "
        "from it only by the gradient.",
    )

    def rate(self, view: View, probed: LayerCall, rows: Places) -> tuple[ScoresBN, tuple[str, ...]]:
        """[B, N], the supervised rows' attention to the visual tokens. No notes."""
        mean_BS = attend(probed, rows, view.valid).by_query_head().mean(dim=(1, 2))
        return mean_BS.gather(1, view.visual), ()

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of all keys, of the rows' queries and scores, and of a suppression that compares each pair once."""
        rows = shape.attention_row_macs(sizes.tokens, self.supervised(sizes))
        return rows + self.suppression_macs(shape, sizes)
