"""Merging rules: tokens that a selection drops are folded into a few tokens that stay.

A video is cut into segments, which are runs of frames. In a segment, a place that does not change keeps one token for
all frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.selection import unit_rows
from trio_core.tensors import FeaturesND, KeptK, KeysNE, MergedKD, ScoresN, SimilarityNN, widened


def contextual(keys: KeysNE, hidden: FeaturesND, count: int) -> tuple[KeptK, MergedKD, Tensor]:
    """VisionZip's contextual tokens: the indices of C targets, and each target plus the mean of the tokens nearest it.

    The targets are the first C of the indices 0, s, 2s, … with s = ⌊N / C⌋. Every other token joins the target of the
    largest cosine; ties go to the lower index. A target that no token joins stays as it is.

    keys: [N, E], averaged over heads.
    hidden: [N, D], in raster order. Both are of the tokens that are not dominant.
    count: C, 1 … N.

    Returns the targets, [C] ascending; the merged tokens, [C, D] in hidden's dtype; and the labels, [N], the place of
    the target that each token joins, −1 for a target. Means are taken in float32, or in float64 for float64 inputs. The
    host waits only for the check of the inputs.
    Raises OptionError for a count out of range, and for NaN or infinity.
    Source: CVPR 2025, dvlab-research/VisionZip at 3151f6d. Its merged token is a sum too, not an average.
    """
    remaining = len(keys)
    check_budget(count, remaining)
    check_finite("keys or hidden states", keys, hidden)
    targets = torch.arange(count, device=keys.device) * (remaining // count)
    unit, wide = unit_rows(keys), widened(hidden)
    labels = (unit @ unit[targets].T).argmax(dim=1).index_fill(0, targets, -1)
    mean = cluster_means(wide, labels, count)
    return targets, (wide[targets] + mean).to(hidden.dtype), labels


def to_denser(distance: SimilarityNN, density: ScoresN) -> ScoresN:
    """[N], how far each token is from the nearest denser one; infinity for the densest.

    Of equal densities the lower index counts as denser.

    distance: [N, N], of each pair of tokens.
    density: [N].
    """
    order = density.argsort(descending=True, stable=True)
    not_denser = torch.ones_like(distance, dtype=torch.bool).triu()
    nearest = distance[order][:, order].masked_fill(not_denser, torch.inf).amin(dim=1)
    return torch.empty_like(nearest).index_copy_(0, order, nearest)


def squared_distances(features: FeaturesND) -> SimilarityNN:
    """[N, N], the squared Euclidean distance of each pair of tokens over D, symmetric to the last bit.

    features: [N, D].
    """
    wide = widened(features)
    centred = wide - wide.mean(dim=0)  # products of differences from the mean lose fewer digits
    product = centred @ centred.T
    squares = product.diagonal()
    doubled = torch.maximum(product, product.T) * 2
    return (squares[:, None] + squares - doubled).clamp_min_(0).div_(features.shape[1])


def density_peaks(squared: SimilarityNN, neighbours: int) -> KeptK:
    """[N], the indices of all tokens: those that are denser than their surroundings first. Ties go to the lower index.

    A token's density is exp(−d), where d is the mean squared distance to its nearest tokens. Its rank is by density
    times distance from the nearest denser token.

    squared: [N, N], as `squared_distances` returns it.
    neighbours: how many nearest tokens make the density, the token itself included. If there are fewer, all of them do.
    """
    sparsity = squared.topk(min(neighbours, len(squared)), dim=1, largest=False).values.mean(dim=1)
    # The logarithm ranks as density · distance does, and does not underflow.
    return (to_denser(squared.sqrt(), -sparsity).log() - sparsity).argsort(descending=True, stable=True)


@torch.no_grad()
def dpc_knn(features: FeaturesND, count: int, neighbours: int = 7) -> tuple[KeptK, Tensor]:
    """Density peaks by nearest neighbours (DPC-KNN): K centres, and for each token the centre that it joins.

    Centres are the first of `density_peaks`. Every other token joins its nearest centre. Ties go to the lower index.

    features: [N, D].
    count: K, 1 … N.
    neighbours: as in `density_peaks`.

    Returns the centres, [K] ascending indices, and the labels, [N], 0 … K − 1.
    The host waits only for the check of the input.
    Raises OptionError for a count out of range, and for NaN or infinity.
    Source: ACL 2025, Visual-AI/PruneVid at b12600c. Deliberate difference: of two equal densities the lower index
    counts as denser. The released code adds noise.
    """
    check_budget(count, len(features))
    check_finite("features", features)
    squared = squared_distances(features)
    centres = density_peaks(squared, neighbours)[:count].sort().values
    return centres, nearest_centre(squared, centres)


def nearest_centre(distance: SimilarityNN, centres: KeptK) -> Tensor:
    """[N], the number of the centre that each token is nearest to, 0 … K − 1; a centre's own number for a centre.

    distance: [N, N], of each pair of tokens.
    centres: [K] indices. Ties go to the lower number.
    """
    number = torch.arange(len(centres), device=distance.device)
    return distance[:, centres].argmin(dim=1).index_copy_(0, centres, number)


def joined(kept: KeptK, labels: Tensor) -> Tensor:
    """[N]: the index of the kept token that each token is part of; −1 for a token in no cluster.

    kept: [K] indices, one for each cluster.
    labels: [N], as in `cluster_means`.
    """
    return kept[labels.clamp_min(0)].where(labels >= 0, -1)


def cluster_means(hidden: FeaturesND, labels: Tensor, count: int) -> MergedKD:
    """The mean of each cluster's members, [K, D] in hidden's dtype; zeros for a cluster without members.

    hidden: [N, D].
    labels: [N], the cluster of each token, 0 … K − 1; −1 for a token in no cluster.
    count: K.

    Means are taken in float32, or in float64 for float64 inputs.
    """
    wide = widened(hidden)
    # A product with zeros and ones. Scattered sums would change their order from run to run on a GPU.
    members = (labels == torch.arange(count, device=labels.device)[:, None]).to(wide.dtype)
    return (members @ wide / members.sum(dim=1, keepdim=True).clamp_min(1)).to(hidden.dtype)


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
