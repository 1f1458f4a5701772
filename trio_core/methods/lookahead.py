"""Attention in TRIO's place: the control that tells what its gradient adds to looking ahead and to suppression."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Probe, Rows, Selection, Signal, View
from trio_core.rules.attention import attend
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import nms_select, top_k


@dataclass(frozen=True, kw_only=True)
class Lookahead(Method):
    """Rank visual tokens by what the supervised rows attend to in the probed layer, then suppress near-duplicates.

    All is as in `Trio` (the layer that is about to run, the rows, the features and threshold of NMS) but for the score:
    the rows' attention weights, averaged over heads and rows, in place of the gradient of a proxy loss.
    k_pos, threshold, nms, probe, rows: as there.
    """

    k_pos: int = 4
    threshold: float = 0.8
    nms: bool = True
    probe: Probe = "next"
    rows: Rows = "last"

    name: ClassVar[str] = "lookahead"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; TRIO (arXiv 2602.04657) with attention for its score",
        note="Beyond FastV it has the coming layer, four rows and NMS; what TRIO has beyond it is the gradient.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k_pos < 1:
            raise OptionError(f"k_pos {self.k_pos}: at least one row must attend")
        if not -1 < self.threshold <= 1:
            raise OptionError(f"threshold {self.threshold} is outside (-1, 1]")
        for option, known in (("probe", ("next", "current")), ("rows", ("last", "shifted"))):
            if getattr(self, option) not in known:
                raise OptionError(f"{option} {getattr(self, option)!r}: choose {' or '.join(known)}")

    def select(self, view: View) -> Selection:
        """One block of rows for the whole batch, then sample by sample; features are the probed layer's input."""
        probed = view.probed(self.probe)
        rows_BP = view.supervised_rows(self.k_pos, self.rows)
        mean_BS = attend(probed, rows_BP, view.valid).by_query_head().mean(dim=(1, 2))
        scores = tuple(mean_BS[b, picture.rows] for b, picture in enumerate(view.pictures))
        kept = tuple(
            nms_select(scores[b], probed.hidden[b, picture.rows], picture.budget, self.threshold)
            if self.nms
            else top_k(scores[b], picture.budget)
            for b, picture in enumerate(view.pictures)
        )
        return Selection(kept, scores)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the keys of all tokens, the rows' queries and scores, and an NMS that compares every pair once."""
        suppression = sizes.visual * sizes.visual * shape.hidden if self.nms else 0
        return shape.attention_row_macs(sizes.tokens, self.k_pos) + suppression
