"""A budget divided over the crops of a picture: what methods that act on the vision tower's patches share."""

from collections.abc import Callable

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.view import Selection, View
from trio_core.models.encoder import Encoder
from trio_core.rules.schedule import shares
from trio_core.tensors import KeptK


def crops_to_keep_of(encoder: Encoder, sample: int, budget: int) -> list[tuple[int, Tensor]]:
    """The crops of one sample, as `Encoder.crops` gives them, of whose patches `budget` are to stay and no newline.

    Raises OptionError for a budget beyond the patches.
    """
    crops, tokens = encoder.crops(sample), len(encoder.places[sample])
    patches = sum(len(there) for _, there in crops)
    if budget > patches:
        raise OptionError(
            f"budget {budget}: newlines between tiles go first, so that at most {patches} of {tokens} visual tokens "
            "can stay; lower the retention"
        )
    return crops


def crop_by_crop(
    encoder: Encoder, sample: int, budget: int, choose: Callable[[int, Tensor, Tensor, int], KeptK]
) -> KeptK:
    """Each crop's own choice of its share of the budget, as ascending indices into one sample's visual tokens.

    choose: (crop, [n] its visual tokens, [n] the patches behind them, K in 1 … n) → [K] indices among the n.
    A picture that keeps all keeps its newlines too. Raises OptionError for a budget beyond the patches.
    """
    places = encoder.places[sample]
    if budget == len(places):
        return torch.arange(budget, device=places.device)
    crops = crops_to_keep_of(encoder, sample, budget)
    due = shares(budget, [len(there) for _, there in crops])
    kept = [
        there[choose(crop, there, places[there] % encoder.patches, share)]
        for (crop, there), share in zip(crops, due, strict=True)
        if share
    ]
    return torch.cat(kept).sort().values


CropRule = Callable[[Encoder, int, Tensor, int], tuple[Tensor, Tensor]]
"""(encoder, crop, [n] its patches that are there, K in 1 … n) → [K] ascending indices into them; [K, D] features."""


def merge_by_crop(view: View, rule: CropRule) -> Selection:
    """Each crop's patches made into its share of the budget by `rule`, in the tower's features, then projected.

    The features that `rule` gives stand at the places that it names, in that order. A picture that keeps all is left
    alone, newlines too. Raises OptionError for a budget beyond the patches.
    """
    encoder = view.encoder
    assert encoder is not None
    kept, features = [], []
    for sample, (places, picture) in enumerate(zip(encoder.places, view.pictures, strict=True)):
        if picture.budget == len(picture.rows):
            kept.append(torch.arange(picture.budget, device=places.device))
            features.append(view.features(sample))
            continue
        crops = crops_to_keep_of(encoder, sample, picture.budget)
        due = shares(picture.budget, [len(there) for _, there in crops])
        parts = []
        for (crop, there), share in zip(crops, due, strict=True):
            if share:
                stays, made = rule(encoder, crop, places[there] % encoder.patches, share)
                parts.append((there[stays], made))
        indices, made = (torch.cat(part) for part in zip(*parts, strict=True))
        order = indices.argsort()
        kept.append(indices[order])
        features.append(encoder.project(made)[order])
    return Selection(tuple(kept), features=tuple(features))
