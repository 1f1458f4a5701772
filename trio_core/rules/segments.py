"""Segments of a video: runs of frames. In a segment, a place that does not change keeps one token for all frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trio_core.tensors import FeaturesND, widened


@dataclass(frozen=True)
class Segment:
    """A run of L frames. The token of a static place is the mean over the frames, and stands in the first of them.

    number: [L, P], of the tokens on the picture.
    static: [P], True at the places that do not change.
    """

    number: Tensor
    static: Tensor

    @property
    def blocks(self) -> list[Tensor]:
        """The numbers of the tokens that are left: those of the static places, then those of each frame."""
        return [self.number[0, self.static], *self.number[:, ~self.static]]


def with_static_places(
    numbers: Sequence[Tensor], similarity: Sequence[Tensor], threshold: float, surplus: int
) -> list[Segment]:
    """Segments with their static places: the most similar ones, as long as no more than `surplus` tokens go.

    numbers: for each segment [L, P], the numbers of its tokens.
    similarity: for each segment [P], how little each place changes.
    threshold: a static place is more similar than this.
    surplus: how many tokens may go. A static place of L frames takes away L − 1.

    The host waits for the places.
    """
    values = torch.cat(list(similarity))
    gone = torch.cat([torch.full(number.shape[1:], len(number) - 1, device=number.device) for number in numbers])
    order = values.argsort(descending=True, stable=True)
    is_static = (values[order] > threshold) & (gone[order] > 0) & (gone[order].cumsum(dim=0) <= surplus)
    static = torch.zeros_like(is_static).index_copy_(0, order, is_static)
    parts = static.split([number.shape[1] for number in numbers])
    return [Segment(number, part) for number, part in zip(numbers, parts, strict=True)]


def over_time(features: FeaturesND, segments: Sequence[Segment]) -> tuple[FeaturesND, Tensor]:
    """[N, D], the tokens with the means of static places in their first frames; and [N], the token each is part of.

    features: [N, D].

    Means are taken in float32, or in float64 for float64 inputs.
    """
    states, part_of = widened(features).clone(), torch.arange(len(features), device=features.device)
    for segment in segments:
        places = segment.number[:, segment.static]
        states[places[0]] = states[places].mean(dim=0)
        part_of[places] = places[0]
    return states, part_of
