"""VTW: visual tokens withdrawal (arXiv 2405.05803)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, View
from trio_core.rules.schedule import Schedule, check_depth


@dataclass(frozen=True, kw_only=True)
class VTW(Method):
    """Drop all visual tokens after one layer, and none before it.

    Only the averages k / num_layers can be reached. A retention drops after the layer k nearest to
    retention · num_layers, at least 1. With `layers=(k,)` the layer counts and the retention is ignored. Budgets
    and the other budget rules have no meaning here.
    """

    name: ClassVar[str] = "vtw"
    paper_layers: ClassVar[tuple[int, ...]] = (16,)
    """As in the released chat for 7B models."""
    reference: ClassVar[Reference] = Reference(
        title="Boosting Multimodal Large Language Models with Visual Tokens Withdrawal for Rapid Inference",
        arxiv="2405.05803",
        repository="lzhxmu/VTW",
        commit="a3d8cfc3c3f8c957b02b504f85e140d633c30453",
        licence="none stated",
        note="The layer follows from the retention, or you name it. The code searches for it on about 20 prompts. It "
        "takes the first layer, from layer 5 on, at which withdrawal changes the last token's distribution by a KL "
        "divergence of at most 0.003 (LLaVA-1.5-7B). trio_core.calibration.vtw_layer(model, prompts) is this search; "
        "give its result as layers=(layer,).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers is not None and len(self.layers) != 1:
            raise OptionError(f"vtw: layers {self.layers}: all visual tokens leave at once; name one layer")
        if self.budget_rule != "average":
            raise OptionError(
                f"vtw: budget_rule {self.budget_rule!r}: nothing is left after its layer; only 'average' has a meaning"
            )

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """One stage that keeps nothing, or keeps everything where the layer is the last one.

        visual_tokens: V0, how many visual tokens enter the decoder.
        num_layers: depth of the decoder.

        Raises OptionError for a decoder of fewer than two layers, and for budgets that are not all of the tokens.
        """
        check_depth(num_layers)
        layer = None if self.layers is None else self.layers[0]
        everything = Schedule((layer or num_layers - 1,), (visual_tokens,), visual_tokens, num_layers)
        if self.retention is None:
            if super().schedule(visual_tokens, num_layers).budgets != (visual_tokens,):
                raise OptionError(
                    f"vtw: budgets {self.budgets}: it withdraws all visual tokens; give retention, or layers beside it"
                )
            return everything
        layer = layer or max(1, round(self.retention * num_layers))
        if layer == num_layers or self.retention == 1.0:
            return everything
        return Schedule((layer,), (0,), visual_tokens, num_layers)

    def select(self, view: View) -> Selection:
        """All tokens of a picture whose budget is all of them; none of any other picture."""
        counts = (sample.budget if sample.keeps_all else 0 for sample in view.samples)
        return Selection(tuple(torch.arange(count, device=view.hidden.device) for count in counts))
