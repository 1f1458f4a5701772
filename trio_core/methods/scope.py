"""SCOPE: saliency-coverage oriented token pruning (arXiv 2510.24214)."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import crop_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine, facility_location
from trio_core.tensors import FeaturesND, KeptK, ScoresN


def scope(hidden: FeaturesND, attention: ScoresN, budget: int, alpha: float = 1.0) -> KeptK:
    """SCOPE's choice within one crop: coverage of the patches, each pick's gain weighted by its attention.

    NeurIPS 2025, kinredon/SCOPE at 6bf7306. gain_j = Σ_i max(0, S_ij − c_i) · a_j^α, S the cosine of every pair and c_i
    how well i is covered so far, from 0; the largest gain is picked, and c_i becomes max(c_i, S_ij).

    hidden: [N, D] patches of the tower; attention: [N] what CLS attends to, summed over heads; budget: K in 1 … N.
    Returns K indices, ascending; ties go to the lower index. Raises OptionError as `facility_location` does.
    """
    return facility_location(cosine(hidden), attention**alpha, budget)


@dataclass(frozen=True, kw_only=True)
class Scope(Method):
    """Keep the patches that cover the others best, weighted by what the CLS token attends to.

    alpha: the power of the attention; 0 leaves coverage alone. Each crop keeps an equal share, in raster order.
    """

    alpha: float = 1.0

    name: ClassVar[str] = "scope"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodel LLMs",
        arxiv="2510.24214",
        repository="kinredon/SCOPE",
        commit="6bf73069e0d61307051cfda8e25925bc7b7afdd9",
        note='Its mode "multi". Cosines in float32, not half; the budget is met exactly, the first crops taking what '
        "int(K / crops) leaves over; LLaVA-NeXT's newlines go, and padding is cut off its tiles first, which the "
        "released code leaves in. The repository has no licence at its root; its LLaVA folder is Apache-2.0.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.alpha) and self.alpha >= 0):
            raise OptionError(f"alpha {self.alpha}: the power of the attention must be finite and at least 0")

    def select(self, view: View) -> Selection:
        """Crop by crop, in the tower's features."""
        encoder = view.encoder

        def choose(crop: int, _there: Tensor, patch: Tensor, budget: int) -> KeptK:
            attention = encoder.attention[crop].sum(dim=0)
            return scope(encoder.hidden[crop][patch], attention[patch], budget, self.alpha)

        return Selection(tuple(crop_by_crop(encoder, b, p.budget, choose) for b, p in enumerate(view.pictures)))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention and of the similarity of each crop's patches; gains are sums, and multiply nothing."""
        return shape.encoder_attention_macs(sizes.visual) + shape.similarity_macs(sizes.visual, sizes.budget)
