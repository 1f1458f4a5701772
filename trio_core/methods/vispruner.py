"""VisPruner: beyond text–visual attention (arXiv 2412.01818, which its first version, FasterVLM, shares)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import crop_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine
from trio_core.tensors import FeaturesND, KeptK, ScoresN

_AT_ONCE = 8
"""Tokens that a round of matching drops at the most."""


@torch.no_grad()
def vispruner(hidden: FeaturesND, attention: ScoresN, budget: int, important: float = 0.5) -> KeptK:
    """VisPruner's choice within one crop: the most attended patches, and of the others those least like each other.

    ICCV 2025, Theia-4869/VisPruner at aefa01a. int(K · r) patches stay by attention. The rest, in the order of their
    attention, are dealt to two sets in turn; of the first set the 8 whose largest cosine with the second is highest
    drop; what is left of it, the most alike first, and then the second set are dealt again, until enough are gone.
    Deliberate difference: a round never drops more than the first set has, and an odd one out goes to that set; the
    released code fails there. The cosine of a pair is computed once, not in every round.

    hidden: [N, D] patches of the tower; attention: [N], heads averaged; budget: K in 1 … N; important: r in [0, 1].
    Returns K indices, ascending; ties go to who comes first. The host waits only for the inputs' check. Raises
    OptionError for a budget out of range and for inputs that are not finite.
    """
    count = len(attention)
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")
    if not (attention.isfinite().all() & hidden.isfinite().all()):
        raise OptionError("attention or features hold NaN or infinity: the encoder's output is broken")
    order = attention.argsort(descending=True, stable=True)
    sure = int(budget * important)
    kept, rest, similarity = order[:sure], order[sure:], cosine(hidden)
    if budget == sure:
        return kept.sort().values
    while (over := len(rest) - (budget - sure)) > 0:
        first, second = rest[::2], rest[1::2]
        alike = similarity[first][:, second].amax(dim=1).argsort(descending=True, stable=True)
        rest = torch.cat([first[alike][min(over, _AT_ONCE, len(first)) :], second])
    return torch.cat([kept, rest]).sort().values


@dataclass(frozen=True, kw_only=True)
class VisPruner(Method):
    """Keep the patches that the CLS token attends to most, and beside them some that are unlike the other ones.

    important: the share of the budget that goes by attention. Each crop keeps an equal share, in raster order.
    """

    important: float = 0.5

    name: ClassVar[str] = "vispruner"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in VLMs",
        arxiv="2412.01818",
        repository="Theia-4869/VisPruner",
        commit="aefa01adc7c7ce6334e880c88225e90cede760d1",
        note="Each cosine is computed once, in float32; a round that would drop more than its set has, or that has an "
        "odd number to deal, is defined; the budget is divided over the crops, where the released code keeps as many "
        "of each; LLaVA-NeXT's newlines go, and padding is cut off its tiles first.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.important <= 1:
            raise OptionError(f"important {self.important} is outside [0, 1]: it is a share of the budget")

    def select(self, view: View) -> Selection:
        """Crop by crop, in the tower's features."""
        encoder = view.encoder

        def choose(crop: int, _there: Tensor, patch: Tensor, budget: int) -> KeptK:
            attention = encoder.attention[crop].mean(dim=0)
            return vispruner(encoder.hidden[crop][patch], attention[patch], budget, self.important)

        return Selection(tuple(crop_by_crop(encoder, b, p.budget, choose) for b, p in enumerate(view.pictures)))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention and of the similarity of each crop's patches."""
        return shape.encoder_attention_macs(sizes.visual) + shape.similarity_macs(sizes.visual, sizes.budget)
