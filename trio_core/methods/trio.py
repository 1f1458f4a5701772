"""TRIO: token reduction via inference-objective guidance (arXiv 2602.04657)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Probe, Rows, Selection, Signal, View
from trio_core.rules import equations
from trio_core.rules.attention import LayerCall, Readout
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.saliency import tail_saliency
from trio_core.rules.selection import nms_select, top_k
from trio_core.spans import span
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS, RowsBP, ScoresBN, differentiable


@dataclass(frozen=True, kw_only=True)
class Trio(Method):
    """Rank visual tokens by the gradient of a layer-local proxy loss, then suppress near-duplicates.

    k_pos: supervised rows. threshold: cosine from which a token counts as a duplicate; nms=False ranks alone.
    saliency: `tail` redoes the probed layer for the supervised rows alone, which gives the same scores to rounding;
    `autograd` is the paper's procedure: a forward of the whole probed layer, the proxy loss, its backward.
    probe: `next` looks ahead into layer l + 1 before it runs on the kept tokens (what the public code does); `current`
    looks back at layer l, the paper's equations read literally.
    rows: `last` supervises the last k_pos rows (the paper), `shifted` the k_pos before the last (the public code).
    tokens: `all` lets text tokens compete with the visual ones, as the paper says its procedure could; the supervised
    rows, the last token and the first stay out of it. Retention and numbering then count text in.
    """

    k_pos: int = 4
    threshold: float = 0.8
    nms: bool = True
    saliency: Literal["tail", "autograd"] = "tail"
    probe: Probe = "next"
    rows: Rows = "last"
    tokens: Literal["visual", "all"] = "visual"

    name: ClassVar[str] = "trio"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.READOUT})
    reference: ClassVar[Reference] = Reference(
        title="TRIO: Token Reduction via Inference-Objective Guidance for Efficient Vision-Language Models",
        arxiv="2602.04657",
        repository="ocy1/TRIO",
        commit="ec85d99de311a7e1998fd9383b532ef1636ae807",
        note="No licence is stated. Ties go to the lower index (undefined there); logits only at the supervised rows.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k_pos < 1:
            raise OptionError(f"k_pos {self.k_pos}: at least one row must be supervised")
        if not -1 < self.threshold <= 1:
            raise OptionError(f"threshold {self.threshold} is outside (-1, 1]")
        for option, known in (
            ("saliency", ("tail", "autograd")),
            ("probe", ("next", "current")),
            ("rows", ("last", "shifted")),
            ("tokens", ("visual", "all")),
        ):
            if getattr(self, option) not in known:
                raise OptionError(f"{option} {getattr(self, option)!r}: choose {' or '.join(known)}")

    @property
    def needs_layer_parts(self) -> bool:
        """Autograd runs the layer as it is."""
        return self.saliency == "tail"

    def candidates(self, visual: MaskBS, valid: MaskBS) -> MaskBS:
        """[B, S]: with tokens "all", the text too, but for the first token, the supervised rows and the last one."""
        if self.tokens == "visual":
            return visual
        count = valid.long().cumsum(dim=1)
        last_free = count[:, -1:] - self.k_pos - (1 if self.rows == "shifted" else 0)
        return visual | (valid & (count > 1) & (count <= last_free))

    def select(self, view: View) -> Selection:
        """Score all tokens in one pass over the batch, then choose sample by sample; features are the probed input."""
        probed = view.probed(self.probe)
        rows_BP = view.supervised_rows(self.k_pos, self.rows)
        scores_BN = self._saliency(view, probed, rows_BP)
        scores = tuple(scores_BN[s.index, : len(s.rows)] for s in view.samples)
        with span("nms"):
            kept = tuple(
                nms_select(scores[s.index], probed.hidden[s.index, s.rows], s.budget, self.threshold)
                if self.nms
                else top_k(scores[s.index], s.budget)
                for s in view.samples
            )
        return Selection(kept, scores)

    def _saliency(self, view: View, probed: LayerCall, rows_BP: RowsBP) -> ScoresBN:
        """[B, N]: the saliency of the visual tokens."""
        if self.saliency == "tail":
            return tail_saliency(probed, view.readout, rows_BP, view.valid, view.visual)
        scores_BS = equations.saliency(partial(_logits, view.readout, probed, rows_BP), probed.hidden)
        return scores_BS.gather(1, view.visual)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the scores, forward and backward, and of an NMS that compares every pair of visual tokens once.

        Frozen weights ask for no gradients, so a linear costs as much backward as forward.
        `tail`: for each token its key and, for every supervised row and head, its score and its share of the row's sum,
        all forward and backward. For each visual token the sums once more. For each supervised row query, output, FFN
        and head; and the whole value projection for each of its heads' sums.
        `autograd`: the whole layer; attention has two products forward and four backward.
        """
        d, rows, tokens, visual = shape.hidden, self.k_pos, sizes.tokens, sizes.visual
        feed_forward = shape.ffn_matrices * d * shape.intermediate
        suppression = visual * visual * d if self.nms else 0
        if self.saliency == "tail":
            scores, sums = rows * shape.query_width, rows * shape.heads * d
            each_token = 2 * (d * shape.kv_width + scores + sums)
            each_row = 3 * d * shape.query_width + 2 * (shape.heads * d * shape.kv_width)
            each_row += 2 * feed_forward + 2 * d * shape.vocabulary
            return tokens * each_token + visual * sums + rows * each_row + suppression
        each_token = 2 * d * shape.query_width + 2 * d * shape.kv_width + feed_forward
        attention = 2 * tokens * tokens * shape.query_width
        return 2 * tokens * each_token + 3 * attention + 2 * rows * d * shape.vocabulary + suppression


def _logits(readout: Readout, probed: LayerCall, rows_BP: RowsBP, hidden: HiddenBSD) -> LogitsBPV:
    """Head and norm of the whole probed layer's output, at the supervised rows."""
    samples = torch.arange(len(rows_BP), device=rows_BP.device)[:, None]
    return readout(probed.run(hidden)[samples, differentiable(rows_BP)])
