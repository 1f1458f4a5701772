"""FasterVLM: the CLS token's attention is all that is needed (arXiv 2412.01818)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from trio_core.methods.crops import Crop, CropMethod
from trio_core.methods.method import Reference
from trio_core.methods.view import Selection, View
from trio_core.rules.selection import top_k
from trio_core.tensors import KeptK


@dataclass(frozen=True, kw_only=True)
class FasterVLM(CropMethod):
    """Keep the patches that the CLS token attends to most.

    The score is the mean over heads. Each crop keeps an equal share.
    """

    name: ClassVar[str] = "fastervlm"
    reference: ClassVar[Reference] = Reference(
        title="[CLS] Attention is All You Need for Training-Free Visual Token Pruning: Make VLM Inference Faster",
        arxiv="2412.01818",
        repository="Theia-4869/FasterVLM",
        commit="f5d5f12037e105a51865ecb4b28a73cd86eb4921",
    )

    def keep(self, crop: Crop) -> KeptK:
        """The most attended patches. Source: Theia-4869/FasterVLM at f5d5f12."""
        return top_k(crop.attention.mean(dim=0), crop.budget)

    def select(self, view: View) -> Selection:
        """Rank crop by crop. The scores are the mean attention, and zero at newlines."""
        scores = tuple(view.encoder.attention_of(sample.index) for sample in view.samples)
        return replace(super().select(view), scores=scores)
