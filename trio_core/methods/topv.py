"""TopV: token pruning by optimal transport within a layer (arXiv 2503.18278), from its description."""

from dataclasses import dataclass
from math import isqrt, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.method import Method, Reference, within
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import stride, top_k, unit_rows
from trio_core.tensors import FeaturesND, KeptK, ScoresN, to_device, wide_type


@dataclass(frozen=True, kw_only=True)
class TopV(Method):
    """Keep the tokens that contribute most to a layer's output, and some others at even steps.

    Each visual token is a source as it enters the layer that has just run, and a target as it leaves it, after the next
    norm. A source that moves to a target costs the distance of their features, the distance of their places on the
    picture, and the source's distance from the centre of the picture. Sinkhorn's iterations turn costs into
    contributions. A source's score is the sum of its contributions.

    The paper names no constants. Every default here is ours.

    features, places, centre: weights of the three costs.
    temperature: what costs are divided by.
    iterations: number of Sinkhorn's iterations. Keep it small: at convergence all scores are equal.
    recovered: share of the budget that goes to the other tokens at even steps, in [0, 1).
    """

    features: float = within("[0, inf)", 1.0)
    places: float = within("[0, inf)", 1.0)
    centre: float = within("[0, inf)", 1.0)
    temperature: float = within("(0, inf)", 0.1)
    iterations: int = within("[1, inf)", 3)
    recovered: float = within("[0, 1)", 0.1)

    name: ClassVar[str] = "topv"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    paper_layers: ClassVar[tuple[int, ...]] = (2,)
    scales_layers: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference(
        title="TopV: Compatible Token Pruning with Inference Time Optimization for Fast and Low-Memory Multimodal "
        "Vision Language Model",
        arxiv="2503.18278",
        kind="description",
        note="No code is public. Weights, temperature, number of iterations and the recovered share are our choice. "
        "The distance of features is 1 − cosine. A target is the layer's output after the norm that follows it. If "
        "the number of tokens is a square, their places are a square raster. Otherwise, and in a video, their places "
        "are their order.",
    )

    def select(self, view: View) -> Selection:
        """Score each sample's visual tokens by their contribution to the layer that has just run."""
        source_BSD = view.probed("current").hidden
        target_BSD = view.probed("next").attention().norm(view.hidden)
        scores, kept = [], []
        for sample in view.samples:
            places = raster(sample.picture.number, sample.picture.schedule.visual_tokens, one_picture=not sample.videos)
            source, target = (stream[sample.index, sample.rows] for stream in (source_BSD, target_BSD))
            cost = costs(source, target, places, (self.features, self.places, self.centre))
            scores.append(contribution(cost, self.temperature, self.iterations))
            kept.append(recover(scores[-1], sample.budget, self.recovered))
        return Selection(tuple(kept), tuple(scores))

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the cosine of every source and target. The rest multiplies no matrices."""
        return sizes.visual * sizes.visual * shape.hidden


def raster(number: Tensor, count: int, *, one_picture: bool = True) -> Tensor:
    """Where tokens lie on the picture, each axis from 0 to 1: [N, 2] rows and columns, or [N, 1] the order.

    Rows and columns are given where `count` is a square. Otherwise the shape of the picture is unknown here.

    number: [N], the tokens' numbers on the picture, 0 … count − 1.
    count: number of tokens of the whole picture.
    one_picture: whether the tokens are of one picture. The frames of a video have their order.
    """
    side = isqrt(count)
    if side * side != count or not one_picture:
        return number[:, None] / max(count - 1, 1)
    row = torch.div(number, side, rounding_mode="floor")
    return torch.stack([row, number - row * side], dim=1) / max(side - 1, 1)


def costs(source: FeaturesND, target: FeaturesND, place: Tensor, weights: tuple[float, float, float]) -> Tensor:
    """[N, N], the cost of moving source i to target j: a weighted sum of three distances.

    1 − cos(source_i, target_j), in 0 … 2; ‖place_i − place_j‖ over the picture's diagonal, in 0 … 1; and
    ‖place_i − centre‖ over half the diagonal, in 0 … 1.

    source, target: [N, D], the tokens before and after the layer.
    place: [N, 1 or 2], in 0 … 1.
    weights: of the three distances, in this order.
    """
    place, diagonal = place.to(wide_type(source)), sqrt(place.shape[1])
    # Differences of pairs: `torch.cdist` multiplies matrices, and small distances lose digits.
    distance = (place[:, None] - place[None]).square().sum(dim=-1).sqrt() / diagonal
    centre = (place - 0.5).square().sum(dim=-1, keepdim=True).sqrt() * 2 / diagonal
    return weights[0] * (1 - unit_rows(source) @ unit_rows(target).T) + weights[1] * distance + weights[2] * centre


def contribution(cost: Tensor, temperature: float, iterations: int) -> ScoresN:
    """[N], how much each source contributes: the row sums of exp(−cost / temperature) after Sinkhorn's iterations.

    Columns are normalised, then rows, and so on. Columns come last, so that the parts of each target sum to 1. Computed
    on logarithms.

    cost: [N, N], sources by targets.
    temperature: what costs are divided by.
    iterations: how often columns are normalised.
    """
    log = -cost / temperature
    for iteration in range(iterations):
        if iteration:
            log = log - log.logsumexp(dim=1, keepdim=True)
        log = log - log.logsumexp(dim=0, keepdim=True)
    return log.exp().sum(dim=1)


def recover(scores: ScoresN, budget: int, share: float) -> KeptK:
    """[K], ascending: the highest scores, and round(K · share) of the other tokens at even steps.

    At least one token stays by its score. Ties go to the lower index.

    scores: [N].
    budget: K in 1 … N.
    share: share of the budget that goes to the other tokens.

    Raises OptionError for scores that are not finite.
    """
    recovered = min(round(budget * share), budget - 1)
    best = top_k(scores, budget - recovered)
    if not recovered:
        return best
    pruned = torch.ones_like(scores, dtype=torch.bool).index_fill(0, best, False)
    others = pruned.int().argsort(descending=True, stable=True)[: len(scores) - len(best)]
    return torch.cat([best, others[to_device(stride(len(others), recovered), others.device)]]).sort().values
