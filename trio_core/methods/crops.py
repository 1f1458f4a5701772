"""The bases of methods that look into the tower. Each crop of a picture keeps its share of the budget.

A picture is one crop in LLaVA-1.5 and Qwen. In LLaVA-NeXT and LLaVA-OneVision it is a base crop and several tiles, with
newline tokens between the rows of the tiles. A frame of a video is a crop.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Sample, Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import joined
from trio_core.rules.schedule import shares
from trio_core.tensors import AttentionHN, FeaturesND, KeptK, KeysNE


@dataclass(frozen=True)
class Crop:
    """One crop of a sample's picture. Its n visual tokens are n of the tower's M patches.

    encoder: the tower's output.
    number: the crop's place in the tower's batch.
    tokens: [n], its visual tokens, as indices into the visual tokens of the sample.
    patches: [n], the patches behind them, 0 … M − 1 in raster order.
    budget: how many of the n to keep. 0 if the budget is smaller than the number of crops.
    """

    encoder: Encoder
    number: int
    tokens: Tensor
    patches: Tensor
    budget: int

    @property
    def hidden(self) -> FeaturesND:
        """[n, D]: the patches as the projector reads them."""
        return self.encoder.hidden[self.number][self.patches]

    @property
    def keys(self) -> KeysNE:
        """[n, E]: the patches' keys in the layer that made `hidden`, averaged over heads."""
        return self.encoder.keys[self.number].mean(dim=1)[self.patches]

    @property
    def attention(self) -> AttentionHN:
        """[H, n]: what the CLS token pays to each patch; in a tower without CLS, what the patch receives."""
        return self.encoder.attention[self.number][:, self.patches]


@dataclass(frozen=True)
class MergedCrop:
    """The result of a merging rule for one crop.

    indices: [K], into the crop's n tokens, in any order.
    features: [K, D], of the tower, that stand there from now on.
    labels: returns [n], for each token the place in `indices` of the token that it went into; −1 for none. None if a
        token goes into several, or if nobody can say.
    """

    indices: KeptK
    features: FeaturesND
    labels: Callable[[], Tensor] | None = None


def crops_of(sample: Sample) -> list[Crop]:
    """The crops of a sample's picture, each with its share of the budget. Newlines belong to no crop.

    Raises OptionError for a budget larger than the number of patches.
    """
    encoder = sample.view.encoder
    places, crops = encoder.places[sample.index], encoder.crops(sample.index)
    sizes = [len(tokens) for _, tokens in crops]
    check_room(sample, sum(sizes))
    return [
        Crop(encoder, number, tokens, places[tokens] % encoder.patches, budget)
        for (number, tokens), budget in zip(crops, shares(sample.budget, sizes), strict=True)
    ]


def check_room(sample: Sample, in_crops: int) -> None:
    """Raise OptionError for a budget larger than the number of tokens in crops: newline tokens are in none."""
    if sample.budget > in_crops:
        raise OptionError(
            f"budget {sample.budget}: newline tokens go first, so that at most {in_crops} of {len(sample.rows)} visual "
            "tokens can stay; lower the retention"
        )


def crop_by_crop(crops: Sequence[Crop], rule: Callable[[Crop], KeptK]) -> KeptK:
    """The tokens that `rule` keeps of all crops: ascending indices into the sample's visual tokens.

    crops: of one sample. Those with a budget of 0 are skipped.
    rule: returns the [K] indices that it keeps of a crop's n tokens.
    """
    return torch.cat([crop.tokens[rule(crop)] for crop in crops if crop.budget]).sort().values


def _merged(sample: Sample, rule: Callable[[Crop], MergedCrop]) -> tuple[KeptK, Tensor, Callable[[], Tensor] | None]:
    """Merge a sample crop by crop. A sample that keeps all stays as it is.

    Returns the tokens that stay, [K] ascending; what stands there, [K, D]; and a function that returns for each token,
    [N], the index of the kept token that it is part of, −1 for none. None in its place if nobody can say.

    Raises OptionError for a budget larger than the number of patches.
    """
    if sample.keeps_all:
        everything = all_tokens(sample)
        return everything, sample.features, lambda: everything
    crops = [crop for crop in crops_of(sample) if crop.budget]
    merged = [rule(crop) for crop in crops]
    # For the function below. It outlives the stage, so it must not hold the sample or a crop.
    parts = [(crop.tokens, crop.tokens[part.indices], part.labels) for crop, part in zip(crops, merged, strict=True)]
    count = len(sample.rows)
    kept, order = torch.cat([own for _, own, _ in parts]).sort()
    features = sample.view.encoder.project(torch.cat([part.features for part in merged]))[order]

    def into() -> Tensor:
        places = kept.new_full((count,), -1)
        for tokens, own, labels in parts:
            if labels is not None:
                places[tokens] = joined(own, labels())
        return places

    return kept, features, None if any(labels is None for _, _, labels in parts) else into


def all_tokens(sample: Sample) -> KeptK:
    """[N]: the indices of all visual tokens of a sample."""
    return torch.arange(len(sample.rows), device=sample.rows.device)


class TowerMethod(Method):
    """A method that acts before the decoder and looks into the tower."""

    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the tower's attention. A method that multiplies more overrides this."""
        return shape.encoder_attention_macs(sizes.visual)


class CropMethod(TowerMethod):
    """A method that selects crop by crop. A subclass writes `keep`, and `select` follows from it."""

    @abstractmethod
    def keep(self, crop: Crop) -> KeptK:
        """[K], the indices that stay of a crop's n tokens, ascending. K is the crop's budget, at least 1."""

    def select(self, view: View) -> Selection:
        """Select crop by crop. A sample that keeps all keeps its newlines too.

        Raises OptionError for a budget larger than the number of patches.
        """
        kept = (all_tokens(s) if s.keeps_all else crop_by_crop(crops_of(s), self.keep) for s in view.samples)
        return Selection(tuple(kept))


class MergingMethod(TowerMethod):
    """A method that merges crop by crop. A subclass writes `merge`, and `select` follows from it."""

    @abstractmethod
    def merge(self, crop: Crop) -> MergedCrop:
        """The tokens that stand for a crop, as many as its budget, at least 1."""

    def select(self, view: View) -> Selection:
        """Merge crop by crop in the tower's features, then project the result.

        Raises OptionError for a budget larger than the number of patches.
        """
        kept, features, into = zip(*(_merged(sample, self.merge) for sample in view.samples), strict=True)
        return Selection(kept, None, features, None if None in into else lambda: tuple(make() for make in into))
