"""The base of `Trio` and `Lookahead`: a few supervised rows of one layer score the tokens, and Algorithm 1 selects."""

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor

from trio_core.methods.method import Method, within
from trio_core.methods.view import Probe, Rows, Selection, View, supervised_count
from trio_core.rules.attention import LayerCall
from trio_core.rules.cost import LayerShape, Sizes, suppression_macs
from trio_core.rules.nms import nms_select
from trio_core.rules.selection import top_k
from trio_core.spans import span
from trio_core.tensors import Places, ScoresBN


@dataclass(frozen=True, kw_only=True)
class Probing(Method):
    """Keep the tokens that matter most to a few rows of one layer, without near-duplicates.

    k_pos: number of supervised rows, K_pos in the paper and |P| in Eq. 2. If less text follows the picture, as when the
        question stands before it, fewer rows are supervised, and the trace has a note. Rows before the picture do not
        see it, so their loss has no gradient there: a prompt that ends with its picture is refused.
    threshold: cosine from which a token counts as a duplicate, τ of Algorithm 1, in (−1, 1].
    nms: whether duplicates are suppressed. False keeps the highest scores.
    probe: the layer that is probed. `next` is layer l + 1, which has not run yet; `current` is layer l.
    rows: the supervised rows. `last` are the last k_pos tokens; `shifted` are the k_pos tokens before the last one.
    """

    k_pos: int = within("[1, inf)", 4)
    threshold: float = within("(-1, 1]", 0.8)
    nms: bool = True
    probe: Probe = "next"
    rows: Rows = "last"

    @abstractmethod
    def rate(self, view: View, probed: LayerCall, rows: Places) -> tuple[ScoresBN, tuple[str, ...]]:
        """[B, N], the scores of the visual tokens by the supervised rows. Also notes for the trace.

        probed: the layer that is probed.
        rows: [B, P] or a slice, places of the supervised rows.
        """

    def select(self, view: View) -> Selection:
        """Score the tokens of the whole batch at once, then run Algorithm 1 on each sample.

        The features of Algorithm 1 are X, the input of the probed layer.
        """
        probed = view.probed(self.probe)
        by_sample: dict[int, Tensor] = {}
        notes: tuple[str, ...] = ()
        for rows, samples, few_rows in view.supervised_groups(self.k_pos, self.rows):
            scores_BN, remarks = self.rate(view, probed, rows)
            by_sample |= {b: scores_BN[b, : len(view.pictures[b].rows)] for b in samples}
            notes += (*few_rows, *remarks)
        scores = tuple(by_sample[b] for b in range(len(view.pictures)))
        with span("nms"):
            kept = tuple(
                nms_select(scores[s.index], s.picture.of(probed.hidden[s.index]), s.budget, self.threshold)
                if self.nms
                else top_k(scores[s.index], s.budget)
                for s in view.samples
            )
        return Selection(kept, scores, notes=notes)

    def supervised(self, sizes: Sizes) -> int:
        """How many rows of a sample are supervised: k_pos where a record does not say how much text follows."""
        return max(supervised_count(self.k_pos, self.rows, sizes.text_after), 1) if sizes.text_after else self.k_pos

    def suppression_macs(self, shape: LayerShape, sizes: Sizes) -> int:
        """MACs of a suppression that compares each pair of tokens once."""
        return suppression_macs(shape, sizes) if self.nms else 0
