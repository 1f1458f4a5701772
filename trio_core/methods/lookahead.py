"""TRIO with attention as its score: a control that shows what TRIO's gradient adds."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Probe, Rows, Selection, Signal, View, supervised_count
from trio_core.rules.attention import attend
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.nms import nms_select
from trio_core.rules.selection import top_k


@dataclass(frozen=True, kw_only=True)
class Lookahead(Method):
    """Keep what the last rows attend to most in the next layer, without near-duplicates.

    Everything is as in `Trio` except the score: here the attention weights of the supervised rows, averaged over heads
    and rows.

    k_pos: number of supervised rows. If less text follows the picture, fewer, and the trace has a note.
    threshold: cosine from which a token counts as a duplicate, in (−1, 1].
    nms: whether duplicates are suppressed. False keeps the highest scores.
    probe: the layer that is probed. `next` has not run yet; `current` has just run.
    rows: the supervised rows. `last` are the last k_pos tokens; `shifted` are the k_pos tokens before the last one.
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
        kind="control",
        note="Unlike FastV it looks at the next layer and at four rows, and it drops near-duplicates. TRIO differs "
        "from it only by the gradient.",
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
        """Score the tokens of the whole batch at once, then run Algorithm 1 on each sample.

        The features of Algorithm 1 are the input of the probed layer.
        """
        probed = view.probed(self.probe)
        by_sample: dict[int, Tensor] = {}
        notes: tuple[str, ...] = ()
        for group in view.supervised_groups(self.k_pos, self.rows):
            mean_BS = attend(probed, group.rows, view.valid).by_query_head().mean(dim=(1, 2))
            by_sample |= {b: mean_BS[b, view.pictures[b].rows] for b in group.samples}
            notes += group.notes
        scores = tuple(by_sample[b] for b in range(len(view.pictures)))
        kept = tuple(
            nms_select(scores[s.index], s.picture.of(probed.hidden[s.index]), s.budget, self.threshold)
            if self.nms
            else top_k(scores[s.index], s.budget)
            for s in view.samples
        )
        return Selection(kept, scores, notes=notes)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of all keys, of the rows' queries and scores, and of a suppression that compares each pair once."""
        suppression = sizes.visual * sizes.visual * shape.hidden if self.nms else 0
        rows = max(supervised_count(self.k_pos, self.rows, sizes.text_after), 1) if sizes.text_after else self.k_pos
        return shape.attention_row_macs(sizes.tokens, rows) + suppression
