"""VTW: visual tokens withdrawal (arXiv 2405.05803)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, View
from trio_core.rules.schedule import Layers, Schedule, default_layers


@dataclass(frozen=True, kw_only=True)
class VTW(Method):
    """Let all visual tokens go after layer K_w, none before.

    The only averages it has are K_w / L: a retention asks for the K_w nearest to retention · L, at least 1, and
    `realised_retention` says what came of it. K_w = L, and any retention of 1.0, keeps everything. `layers=(K_w,)`
    names the layer itself; the retention beside it then says nothing. Budgets have no meaning here.
    """

    name: ClassVar[str] = "vtw"
    reference: ClassVar[Reference] = Reference(
        title="Boosting Multimodal Large Language Models with Visual Tokens Withdrawal for Rapid Inference",
        arxiv="2405.05803",
        repository="lzhxmu/VTW",
        commit="a3d8cfc3c3f8c957b02b504f85e140d633c30453",
        note="No licence is stated. K_w comes from the retention; the released search for it, by the divergence of the "
        "last token's distribution, is withdraw_after.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers is not None and len(self.layers) != 1:
            raise OptionError(f"vtw: layers {self.layers}: all visual tokens leave at once; name one layer")
        if self.budget_rule != "average":
            raise OptionError(
                f"vtw: budget_rule {self.budget_rule!r}: nothing is left after its layer; only 'average' has a meaning"
            )

    def default_layers(self, num_layers: int) -> Layers:
        """After 16 of 32 layers, as the released chat does for 7B, and in proportion elsewhere."""
        return default_layers(num_layers, (16,))

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """One stage that keeps nothing; or, where K_w is the decoder's depth, one that keeps all."""
        if num_layers < 2:
            raise OptionError(f"num_layers {num_layers}: pruning between layers needs at least 2")
        if self.budgets is not None:
            if super().schedule(visual_tokens, num_layers).budgets != (visual_tokens,):
                raise OptionError(
                    f"vtw: budgets {self.budgets}: it withdraws all visual tokens; give retention, or layers beside it"
                )
            return self._everything(visual_tokens, num_layers)
        assert self.retention is not None
        layer = max(1, round(self.retention * num_layers)) if self.layers is None else self.layers[0]
        if layer == num_layers or self.retention == 1.0:
            return self._everything(visual_tokens, num_layers)
        return Schedule((layer,), (0,), visual_tokens, num_layers)

    def _everything(self, visual_tokens: int, num_layers: int) -> Schedule:
        layers = (num_layers - 1,) if self.layers is None else self.layers
        return Schedule(layers, (visual_tokens,), visual_tokens, num_layers)

    def select(self, view: View) -> Selection:
        """All of a picture that may stay whole, else nothing of it: there is no choice between."""
        device = view.hidden.device
        counts = [p.budget if p.budget == len(p.rows) else 0 for p in view.pictures]
        return Selection(tuple(torch.arange(count, device=device) for count in counts))


def divergence(full: Tensor, withdrawn: Tensor) -> Tensor:
    """KL(withdrawn ‖ full) of the last token's distributions: Σ p_withdrawn · log(p_withdrawn / p_full), mean over B.

    lzhxmu/VTW at a3d8cfc. full, withdrawn: [B, V] logits. Returns a number, in at least float32.
    """
    wide = torch.promote_types(full.dtype, torch.float32)
    reference, ours = (logits.to(wide).log_softmax(dim=-1) for logits in (full, withdrawn))
    return (ours.exp() * (ours - reference)).sum(dim=-1).mean()


def withdraw_after(divergences: Sequence[float], threshold: float, first: int = 5) -> int:
    """The released search: the first K_w whose mean `divergence` from the full model is at most the threshold.

    lzhxmu/VTW at a3d8cfc, there over about 20 samples and with thresholds .003 (LLaVA-1.5-7B), .0005 (13B), .0001
    (NeXT-7B). divergences[i]: of withdrawing after layer first + i.

    Raises OptionError where none is that small.
    """
    for layer, seen in enumerate(divergences, start=first):
        if seen <= threshold:
            return layer
    raise OptionError(
        f"threshold {threshold}: no layer from {first} on is that close to the full model, the nearest is at "
        f"{min(divergences, default=float('inf')):.3g}; raise it"
    )
