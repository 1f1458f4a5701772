"""FasterVLM: the CLS token's attention is all that is needed (arXiv 2412.01818)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from trio_core.methods.crops import crop_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import top_k
from trio_core.tensors import AttentionHN, KeptK


def fastervlm(attention: AttentionHN, budget: int) -> KeptK:
    """The patches of one crop that CLS attends to most, its heads averaged.

    Theia-4869/FasterVLM at f5d5f12. attention: [H, N] of each head; budget: K in 1 … N. Returns K indices, ascending;
    ties go to the lower index. Raises OptionError as `top_k` does.
    """
    return top_k(attention.mean(dim=0), budget)


@dataclass(frozen=True, kw_only=True)
class FasterVLM(Method):
    """Keep the patches that the CLS token attends to most, all heads averaged; each crop an equal share of them."""

    name: ClassVar[str] = "fastervlm"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="[CLS] Attention is All You Need for Training-Free Visual Token Pruning: Make VLM Inference Faster",
        arxiv="2412.01818",
        repository="Theia-4869/FasterVLM",
        commit="f5d5f12037e105a51865ecb4b28a73cd86eb4921",
        note="Ties go to the lower index; the budget is divided over the crops, where the released code keeps as many "
        "of each; LLaVA-NeXT's newlines go, and padding is cut off its tiles first, which the released code leaves in.",
    )

    def select(self, view: View) -> Selection:
        """Rank crop by crop; the scores are the averaged attention, zero at newlines."""
        encoder = view.encoder

        def choose(crop: int, _there: Tensor, patch: Tensor, budget: int) -> KeptK:
            return fastervlm(encoder.attention[crop][:, patch], budget)

        kept = tuple(crop_by_crop(encoder, b, p.budget, choose) for b, p in enumerate(view.pictures))
        attention_CM = encoder.attention.mean(dim=1)
        return Selection(kept, tuple(encoder.by_token(b, attention_CM) for b in range(len(view.pictures))))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention; nothing else is multiplied."""
        return shape.encoder_attention_macs(sizes.visual)
