"""TRIO: token reduction via inference-objective guidance (arXiv 2602.04657), in four variants.

The paper and its public code (ocy1/TRIO at ec85d99) differ, and our default differs from both. H^l is the residual
stream that leaves layer l, and a stage stands after layer l.

| name          | layer that is probed | X, the probed input | supervised rows         | positions | default stages  |
|---------------|----------------------|---------------------|-------------------------|-----------|-----------------|
| trio          | l + 1                | H^l                 | the last k_pos          | original  | those that pay  |
| trio-printed  | l                    | H^(l − 1)           | the last k_pos          | original  | all             |
| trio-released | l + 1                | H^l                 | k_pos, without the last | compact   | all             |

`trio-ve` is TRIO with the vision encoder: SCOPE before the decoder, then `trio` inside it.
The equations stand in `rules/equations.py`; `rules/saliency.py` computes the same scores faster.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from trio_core.methods.combined import TwoParts
from trio_core.methods.method import Method, Positions, Reference
from trio_core.methods.probing import Probing
from trio_core.methods.scope import Scope
from trio_core.methods.view import Probe, Rows, Signal, View
from trio_core.rules import equations
from trio_core.rules.attention import LayerCall, Readout
from trio_core.rules.cost import LayerShape, Sizes, tail_macs, without_losing_stages
from trio_core.rules.saliency import tail_saliency
from trio_core.rules.schedule import Schedule
from trio_core.tensors import HiddenBSD, LogitsBPV, Places, ScoresBN, differentiable, rows_at

_SHARED = (
    "The rest is the same in trio, trio-printed and trio-released. The norm before the head is the model's final norm, "
    "as in the public code; the paper prints the norm of layer l. Logits are computed at the supervised rows only."
)


@dataclass(frozen=True, kw_only=True)
class Trio(Probing):
    """Keep the tokens that the model's prediction depends on most, without near-duplicates.

    The score of a token is the norm of the gradient of a proxy loss, taken through one layer (Eq. 2 to 5). Algorithm 1
    selects by score and suppresses duplicates.

    saliency: how the scores are computed. Both give the same scores up to rounding. `autograd` is the paper's
        procedure: forward and backward of the whole probed layer. `tail` computes the layer for the supervised rows
        only. If hooks inside the layer may change it, `autograd` runs, and the trace's notes say why.
    """

    saliency: Literal["tail", "autograd"] = "tail"

    leaves_out_stages: ClassVar[bool] = True
    """Whether the default schedule has only the stages that save more than they cost. The paper's has all."""

    name: ClassVar[str] = "trio"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.READOUT})
    reference: ClassVar[Reference] = Reference(
        title="TRIO: Token Reduction via Inference-Objective Guidance for Efficient Vision-Language Models",
        arxiv="2602.04657",
        repository="ocy1/TRIO",
        commit="ec85d99de311a7e1998fd9383b532ef1636ae807",
        licence="none stated",
        note="This variant is neither the printed equations (trio-printed) nor the public code (trio-released). It "
        "probes the next layer, as the code does. It supervises the last rows, as the paper does. It keeps the "
        f"position ids. It leaves out default stages that cost more than they save. {_SHARED}",
        caution="ours: probes the next layer, last rows, original positions",
    )

    @property
    def needs_layer_parts(self) -> bool:
        """Whether it calls the modules of a layer one by one. Only `autograd` runs the whole layer."""
        return self.saliency != "autograd"

    def schedule_in(self, shape: LayerShape, visual_tokens: int, num_layers: int) -> Schedule:
        """The schedule without the default stages that cost more than they save (`rules.cost.without_losing_stages`).

        The arguments and the errors are those of `Method.schedule_in`.
        """
        schedule = self.schedule(visual_tokens, num_layers)
        is_default = self.layers is None and self.budget_rule == "average" and type(self).schedule is Method.schedule
        if not (self.leaves_out_stages and is_default):
            return schedule
        assert self.retention is not None
        return without_losing_stages(
            schedule, self.retention, self.profile(schedule.layers, num_layers), shape, self.overhead
        )

    def rate(self, view: View, probed: LayerCall, rows: Places) -> tuple[ScoresBN, tuple[str, ...]]:
        """[B, N], the saliency of the visual tokens: s_i of Eq. 5. Also notes for the trace."""
        extra = None if self.saliency == "autograd" else probed.extra()
        if self.saliency == "tail" and extra is None:
            return tail_saliency(probed, view.readout, rows, view.valid, view.visual_places), ()
        note = f"saliency 'tail': {extra}, so a few rows are not enough; 'autograd' ran instead"
        scores_BS = equations.saliency(partial(_logits, view.readout, probed, rows), probed.hidden)
        return scores_BS.gather(1, view.visual), (note,) if extra else ()

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the scores, forward and backward, and of a suppression that compares each pair of tokens once.

        The weights are frozen, so the backward pass of a linear layer costs as much as its forward pass.
        tail: see `rules.cost.tail_macs`.
        autograd: the whole layer. Attention multiplies two matrices forward and four backward.
        """
        d, tokens, rows = shape.hidden, sizes.tokens, self.supervised(sizes)
        suppression = self.suppression_macs(shape, sizes)
        if self.saliency != "autograd":
            return tail_macs(shape, sizes, rows) + suppression
        feed_forward = shape.ffn_matrices * d * shape.intermediate
        each_token = 2 * d * shape.query_width + 2 * d * shape.kv_width + feed_forward
        attention = 2 * tokens * tokens * shape.query_width
        return 2 * tokens * each_token + 3 * attention + 2 * rows * d * shape.vocabulary + suppression


@dataclass(frozen=True, kw_only=True)
class TrioPrinted(Trio):
    """Run TRIO as its equations are printed: it probes the layer that has just run."""

    probe: Probe = "current"

    leaves_out_stages: ClassVar[bool] = False
    name: ClassVar[str] = "trio-printed"
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        note="This variant reads the paper's equations literally. The stage after layer l takes the loss at the "
        "output of layer l, and differentiates it with respect to the input of layer l (Eq. 4). The paper does not "
        f"say what happens to the position ids. Here they stay. {_SHARED}",
        caution="as printed: probes the layer that has just run, last rows",
    )


@dataclass(frozen=True, kw_only=True)
class TrioReleased(Trio):
    """Run TRIO as its public code does on LLaVA: the last row is not part of the loss.

    Positions are renumbered, except in families whose positions have several axes.
    """

    rows: Rows = "shifted"
    positions: Positions = "compact"

    leaves_out_stages: ClassVar[bool] = False
    name: ClassVar[str] = "trio-released"
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        note="This variant follows the public code for LLaVA. The code leaves out the last row of logits, as in "
        "training. So the row that predicts the first new token is not supervised. It renumbers the positions of the "
        "tokens that stay. If positions have several axes (Qwen), they are not renumbered, as in the public code for "
        "Qwen. Two things of that code are not followed here: it probes the layer that has just run, and on the 7B "
        "model it reads logits from the input embedding. Scores come from `tail`, the code's from `autograd`. They "
        f"are the same up to rounding. {_SHARED}",
        caution="as released: probes the next layer, rows before the last, compact",
    )

    def positions_in(self, multi_axis_positions: bool) -> Positions | None:
        """The positions that the kept tokens get: the original ones in a family whose positions have several axes."""
        return "original" if multi_axis_positions else self.positions


def _logits(readout: Readout, probed: LayerCall, rows: Places, hidden: HiddenBSD) -> LogitsBPV:
    """[B, P, V], the logits of the whole probed layer's output at the supervised rows (Z^l of Eq. 3)."""
    return readout(rows_at(probed.run(hidden), differentiable(rows)))


@dataclass(frozen=True, kw_only=True)
class TrioVe(TwoParts, Trio):
    """Prune the encoder's output by SCOPE, and the rest by TRIO half-way through the decoder.

    alpha: SCOPE's power of the attention.
    """

    alpha: float = 1.0

    leaves_out_stages: ClassVar[bool] = False
    name: ClassVar[str] = "trio-ve"
    needs: ClassVar[frozenset[Signal]] = Trio.needs | Scope.needs
    proportion: ClassVar[tuple[int, ...]] = (96, 32)
    paper_layers: ClassVar[tuple[int, ...]] = (16,)
    reference: ClassVar[Reference] = replace(
        Trio.reference,
        caution="SCOPE before the decoder, then trio as ours",
        note="The stage in the encoder follows SCOPE's rule (arXiv 2510.24214). That is our decision: the paper's "
        "abstract names VisionZip. The released code scans and merges as VScan does, and here you cannot. Run "
        "visionzip+trio with layers=(16,) for VisionZip: encoder_retention is 1.5 times the retention there. "
        f"{Trio.reference.note}",
    )

    def parts(self) -> tuple[Method, Method]:
        """SCOPE, and TRIO with our options. They read their budgets from the view."""
        options = {name: getattr(self, name) for name in Trio.option_names()}
        scope = Scope(retention=1.0, alpha=self.alpha, positions=self.positions)
        return scope, Trio(**{**options, "retention": 1.0, "layers": None, "budgets": None})
