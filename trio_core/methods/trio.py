"""TRIO: token reduction via inference-objective guidance (arXiv 2602.04657)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from trio_core import equations
from trio_core.errors import OptionError
from trio_core.method import LayerShape, Method, Reference
from trio_core.selection import nms_select, top_k
from trio_core.spans import span
from trio_core.tensors import HiddenBSD, LogitsBPV, ScoresBS, differentiable
from trio_core.view import LayerCall, Probe, Rows, Selection, Signal, View


@dataclass(frozen=True, kw_only=True)
class Trio(Method):
    """Rank visual tokens by the gradient of a layer-local proxy loss, then suppress near-duplicates.

    k_pos: supervised rows. threshold: cosine from which a token counts as a duplicate; nms=False ranks alone.
    saliency: `autograd`, the paper's procedure: a forward of the whole probed layer, the proxy loss, its backward.
    probe: `next` looks ahead into layer l + 1 before it runs on the kept tokens (what the public code does); `current`
    looks back at layer l, the paper's equations read literally.
    rows: `last` supervises the last k_pos rows (the paper), `shifted` the k_pos before the last (the public code).
    """

    k_pos: int = 4
    threshold: float = 0.8
    nms: bool = True
    saliency: Literal["autograd"] = "autograd"
    probe: Probe = "next"
    rows: Rows = "last"

    name: ClassVar[str] = "trio"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.READOUT})
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
            ("saliency", ("autograd",)),
            ("probe", ("next", "current")),
            ("rows", ("last", "shifted")),
        ):
            if getattr(self, option) not in known:
                raise OptionError(f"{option} {getattr(self, option)!r}: choose {' or '.join(known)}")

    def select(self, view: View) -> Selection:
        """Score all tokens in one pass over the batch, then choose sample by sample; features are the probed input."""
        probed = view.probed(self.probe)
        scores_BS = self._saliency(view, probed)
        scores = tuple(scores_BS[b, picture.rows] for b, picture in enumerate(view.pictures))
        with span("nms"):
            kept = tuple(
                nms_select(scores[b], probed.hidden[b, picture.rows], picture.budget, self.threshold)
                if self.nms
                else top_k(scores[b], picture.budget)
                for b, picture in enumerate(view.pictures)
            )
        return Selection(kept, scores)

    def _saliency(self, view: View, probed: LayerCall) -> ScoresBS:
        rows_BP = view.supervised_rows(self.k_pos, self.rows)

        def readout(hidden: HiddenBSD) -> LogitsBPV:
            assert view.readout is not None
            samples = torch.arange(len(rows_BP), device=rows_BP.device)[:, None]
            return view.readout(probed.run(hidden)[samples, differentiable(rows_BP)])

        return equations.saliency(readout, probed.hidden)

    def overhead(self, shape: LayerShape, tokens: int, visual: int) -> int:
        """Forward and input-gradient backward of one layer at full length, the head's rows both ways, and the NMS.

        The frozen weights ask for no gradients, so a linear costs as much backward as forward. Attention costs two
        products forward and four backward. NMS: at the most one similarity for each pair of visual tokens.
        """
        d = shape.hidden
        linears = tokens * (
            2 * d * shape.query_width + 2 * d * shape.kv_width + shape.ffn_matrices * d * shape.intermediate
        )
        scores_and_values = 2 * tokens * tokens * shape.query_width
        head = self.k_pos * d * shape.vocabulary
        suppression = visual * visual * d if self.nms else 0
        return 2 * linears + 3 * scores_and_values + 2 * head + suppression
