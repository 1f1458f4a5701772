"""DART: duplication matters more than importance (arXiv 2502.11494)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View, last_rows
from trio_core.rules.attention import rotate, rotate_back
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers
from trio_core.rules.selection import top_k
from trio_core.tensors import FeaturesND, KeptK, KeysNE


@torch.no_grad()
def least_duplicated(
    keys: KeysNE,
    hidden: FeaturesND,
    text_keys: Tensor,
    text_hidden: Tensor,
    budget: int,
    pivots_visual: int = 4,
    pivots_text: int = 4,
) -> KeptK:
    """A few strong tokens as pivots, and for each in turn the tokens that are least like it.

    EMNLP 2025, the rule of ZichenWen1/EPIC at b2ed9cd. Pivots are the visual and the text tokens of the largest L1 norm
    of the keys. They are visited visual ones first, each kind in ascending order; each takes, of the visual tokens that
    nobody has taken, those of the lowest cosine to it. Visual pivots stay, text pivots only probe. What the budget
    leaves beside the visual pivots is shared equally, and earlier pivots take one more where that does not divide; with
    a budget that the visual pivots use up, the strongest of them stay.

    keys: [N, E] of the picture, after rotary, heads side by side; hidden: [N, D] of it, after the model's final norm;
    text_keys: [T, E] and text_hidden: [T, D] of the text behind it; budget: K in 1 … N. Returns K indices, ascending;
    ties go to the lower index. The host waits for the inputs' checks alone. Raises OptionError for a budget out of
    range and for keys or hidden states that are not finite.
    """
    if not 1 <= budget <= len(keys):
        raise OptionError(f"budget {budget}: can keep 1 … {len(keys)} of {len(keys)} tokens")
    wide = torch.promote_types(hidden.dtype, torch.float32)
    strength, text_strength = (torch.linalg.vector_norm(part.to(wide), 1, dim=-1) for part in (keys, text_keys))
    pivots = top_k(strength, min(pivots_visual, budget))
    if budget <= pivots_visual:
        return pivots
    probes = top_k(text_strength, min(pivots_text, len(text_keys)))
    unit = F.normalize(hidden.to(wide), dim=-1)
    likeness = torch.cat([unit[pivots], F.normalize(text_hidden[probes].to(wide), dim=-1)]) @ unit.T
    if not likeness.isfinite().all():
        raise OptionError("hidden states hold NaN or infinity: those that entered the stage are broken")
    likeness.index_fill_(1, pivots, torch.inf)
    each, more = divmod(budget - len(pivots), len(likeness))
    kept = [pivots]
    for number, row in enumerate(likeness):
        kept.append(row.argsort(stable=True)[: each + (number < more)])
        likeness.index_fill_(1, kept[-1], torch.inf)
    return torch.cat(kept).sort().values


@dataclass(frozen=True, kw_only=True)
class Dart(Method):
    """Keep after layer 2 the visual tokens that duplicate a few pivots least; no attention is looked at.

    pivots_visual, pivots_text: how many tokens of the picture, and of the text behind it, are pivots.
    """

    pivots_visual: int = 4
    pivots_text: int = 4

    name: ClassVar[str] = "dart"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS, Signal.NORM})
    reference: ClassVar[Reference] = Reference(
        title="Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters More",
        arxiv="2502.11494",
        repository="ZichenWen1/EPIC",
        commit="b2ed9cdfda546bd10c0100e92624d30ccf58af59",
        note="The authors' later repository: the paper's own is not public in full. Pivots are visited in ascending "
        "order, there in a Python set's; the budget is met exactly, while there its rounding leaves visual pivots plus "
        "equal shares (196, 132 and 68 tokens, which are the same here).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("pivots_visual", "pivots_text"):
            if getattr(self, option) < 1:
                raise OptionError(f"{option} {getattr(self, option)}: at least one token must be a pivot")

    def default_layers(self, num_layers: int) -> Layers:  # noqa: ARG002
        """After two layers, in a decoder of any depth."""
        return (2,)

    def select(self, view: View) -> Selection:
        """The keys are those of the layer that has just run, the hidden states what it made."""
        call = view.probed("current")
        layer = call.attention()
        cos, sin = (part.expand(len(view.valid), -1, -1) for part in call.rotary)
        keys = rotate(layer.key(layer.norm(call.hidden)), cos, sin)
        # An L1 norm, unlike attention, tells a shift of all positions, such as padding at the left may be. So they
        # count from the sample's first token, whose rotation is taken back; at position 0 it is none.
        first = view.valid.int().argmax(dim=1)[:, None, None].expand(-1, 1, cos.shape[-1])
        keys = rotate_back(keys, cos.gather(1, first), sin.gather(1, first)).flatten(2)
        hidden, kept = view.norm(view.hidden), []
        for sample, picture in enumerate(view.pictures):
            text = last_rows(view.valid[sample : sample + 1], picture.text_after, padded=view.padded)[0]
            of_picture, of_text = ((keys[sample, rows], hidden[sample, rows]) for rows in (picture.rows, text))
            kept.append(least_duplicated(*of_picture, *of_text, picture.budget, self.pivots_visual, self.pivots_text))
        return Selection(tuple(kept))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the keys of all tokens, and of the visual tokens' likeness to each pivot."""
        keys = sizes.tokens * shape.hidden * shape.kv_width
        if sizes.budget <= self.pivots_visual:
            return keys
        return keys + (self.pivots_visual + min(self.pivots_text, sizes.text_after)) * sizes.visual * shape.hidden
