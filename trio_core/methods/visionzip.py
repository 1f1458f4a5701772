"""VisionZip: longer is better but not necessary (arXiv 2412.04467)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import contextual
from trio_core.rules.schedule import shares
from trio_core.rules.selection import top_k


@dataclass(frozen=True, kw_only=True)
class VisionZip(Method):
    """Keep the patches that the CLS token attends to, the CLS token itself, and merge the rest into a few.

    contextual_share: of the budget, the tokens that stand for merged patches; 10 of 64 as published.
    Each crop keeps an equal share. Of what it keeps, the first place holds the CLS token, then come the dominant
    patches in raster order and the merged ones, as in the released code. In a tower without a CLS token a patch
    dominates by what it receives from all others, and there is no such token to keep.
    """

    contextual_share: float = 10 / 64

    name: ClassVar[str] = "visionzip"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="VisionZip: Longer is Better but Not Necessary in Vision Language Models",
        arxiv="2412.04467",
        repository="dvlab-research/VisionZip",
        commit="3151f6df4fca36a4cd1c985e5956e725b1f9ad02",
        note="A merged token is the target plus the mean of what joins it, as released; LLaVA-NeXT's newlines go, and "
        "padding is cut off its tiles first, which the released code leaves in. Each tile's tokens stand in the tile's "
        "own places; the released code puts the CLS and merged tokens of all tiles behind their patches. Without a CLS "
        "token (Qwen), as the ports do: attention received in the last block over whole pictures, and keys before "
        "their rotation, both averaged over merged patches; what merges is the merged patches, behind the projector.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.contextual_share < 1:
            raise OptionError(f"contextual_share {self.contextual_share} is outside [0, 1)")

    def select(self, view: View) -> Selection:
        """Choose and merge crop by crop in the tower's features, and project what is left."""
        kept, features = [], []
        for sample, (places, picture) in enumerate(zip(view.encoder.places, view.pictures, strict=True)):
            if picture.budget == len(picture.rows):  # a small picture beside larger ones: nothing is to be merged
                kept.append(torch.arange(picture.budget, device=places.device))
                features.append(view.features(sample))
                continue
            indices, merged = self._sample(view.encoder, sample, picture.budget)
            order = indices.argsort()
            kept.append(indices[order])
            features.append(view.encoder.project(merged)[order])
        return Selection(tuple(kept), features=tuple(features))

    def _sample(self, encoder: Encoder, sample: int, budget: int) -> tuple[Tensor, Tensor]:
        """[K] indices into a sample's visual tokens, and the [K, D] tower's features that stand there from now on."""
        places, crops = encoder.places[sample], encoder.crops(sample)
        patches = sum(len(there) for _, there in crops)
        if budget > patches:
            raise OptionError(
                f"visionzip keeps no newlines: at most {patches} of {len(places)} visual tokens can stay, "
                f"{budget} are due; lower the retention"
            )
        due = shares(budget, [len(there) for _, there in crops])
        indices, features = [], []
        for (crop, there), share in zip(crops, due, strict=True):
            if share:
                chosen, merged = self._crop(encoder, crop, places[there] % encoder.patches, share)
                # The released order, laid over the places that stay: CLS, dominant patches, merged ones.
                indices.append(there[chosen.sort().values])
                features.append(merged)
        return torch.cat(indices), torch.cat(features)

    def _crop(self, encoder: Encoder, crop: int, patch: Tensor, budget: int) -> tuple[Tensor, Tensor]:
        """[K] indices into the crop's patches whose places stay, and [K, D] features: CLS, dominant, merged."""
        attention = encoder.attention[crop].sum(dim=0)[patch]
        keys, hidden = encoder.keys[crop].mean(dim=1)[patch], encoder.hidden[crop][patch]
        merges = self._merges(budget)
        count = budget - merges - (encoder.cls is not None)
        dominant = top_k(attention, count) if count else patch[:0]
        left = torch.ones_like(attention, dtype=torch.bool).index_fill(0, dominant, False).nonzero().squeeze(1)
        targets, merged = contextual(keys[left], hidden[left], merges) if merges else (left[:0], hidden[:0])
        if encoder.cls is None:  # each stands in its own place, a merged one in its target's
            chosen = torch.cat([dominant, left[targets]])
            order = chosen.argsort()
            return chosen[order], torch.cat([hidden[dominant], merged])[order]
        # The CLS token has no place of its own: it takes that of the first patch that leaves.
        leaves = torch.ones_like(left, dtype=torch.bool).index_fill(0, targets, False)
        chosen = torch.cat([left[leaves][:1], dominant, left[targets]])
        return chosen, torch.cat([encoder.cls[crop : crop + 1], hidden[dominant], merged])

    def _merges(self, budget: int) -> int:
        """How many of a crop's kept tokens stand for merged patches; the CLS token is none of them."""
        return min(round(budget * self.contextual_share), budget - 1)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, of merging, keys compared and means taken, and of projecting what is left.

        A tower that projects its patches itself has done so, and they merge in the decoder's width.
        """
        if not shape.vision_hidden:  # a family that it does not run on
            return 0
        budget, crops = sizes.budget, list(shape.crops(sizes.visual))
        width, has_cls = (shape.hidden, 0) if shape.merged else (shape.vision_hidden, 1)
        merging = 0
        for patches, share in zip(crops, shares(budget, crops), strict=True):
            if share:
                merges = self._merges(share)
                left = patches - (share - merges - has_cls)
                merging += left * merges * (shape.vision_hidden // shape.vision_heads + width)
        projecting = 0 if shape.merged else budget * (shape.vision_hidden + shape.hidden) * shape.hidden
        return shape.encoder_attention_macs(sizes.visual) + merging + projecting
