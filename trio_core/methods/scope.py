"""SCOPE: saliency-coverage oriented token pruning (arXiv 2510.24214)."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.methods.crops import Crop, CropMethod
from trio_core.methods.method import Reference, within
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine, facility_location
from trio_core.tensors import FeaturesND, KeptK, ScoresN


def scope(hidden: FeaturesND, attention: ScoresN, budget: int, alpha: float = 1.0) -> KeptK:
    """The patches of one crop that cover it best, weighted by attention: [K] indices, ascending.

    Each pick has the largest gain_j = a_j^α · Σ_i max(0, S_ij − c_i). S is the cosine of each pair, and c_i says how
    well patch i is covered so far: 0 at first, then max(c_i, S_ij) after each pick j. Ties go to the lower index.

    hidden: [N, D] features of the tower.
    attention: a, [N], what the CLS token pays to each patch, summed over heads.
    budget: K, 1 … N.
    alpha: α.

    Raises OptionError as `facility_location` does.
    Source: NeurIPS 2025, kinredon/SCOPE at 6bf7306, its mode "multi".
    """
    return facility_location(cosine(hidden), attention**alpha, budget)


@dataclass(frozen=True, kw_only=True)
class Scope(CropMethod):
    """Keep the patches that cover the others best, weighted by the CLS token's attention.

    alpha: power of the attention. With 0 coverage alone decides.

    Each crop keeps an equal share.
    """

    alpha: float = within("[0, inf)", 1.0)

    name: ClassVar[str] = "scope"
    reference: ClassVar[Reference] = Reference(
        title="SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodel LLMs",
        arxiv="2510.24214",
        repository="kinredon/SCOPE",
        commit="6bf73069e0d61307051cfda8e25925bc7b7afdd9",
        licence="none at the root; its LLaVA folder is Apache-2.0",
        note='The rule is the mode "multi" of the released code. You cannot choose its mode "add". What int(K / crops) '
        "leaves over goes to the first crops.",
    )

    def keep(self, crop: Crop) -> KeptK:
        """SCOPE in the tower's features."""
        return scope(crop.hidden, crop.attention.sum(dim=0), crop.budget, self.alpha)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, and of the similarity of all pairs of patches within each crop.

        The gains are sums and multiply nothing.
        """
        return shape.encoder_attention_macs(sizes.visual) + shape.similarity_macs(sizes.visual, sizes.budget)
