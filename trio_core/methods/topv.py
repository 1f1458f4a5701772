"""TopV: token pruning by optimal transport within a layer (arXiv 2503.18278), from its description."""

from dataclasses import dataclass
from math import isqrt, sqrt
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import Layers
from trio_core.rules.selection import stride, top_k
from trio_core.tensors import FeaturesND, KeptK, ScoresN, to_device


@dataclass(frozen=True, kw_only=True)
class TopV(Method):
    """Keep the visual tokens that contribute most to what a layer makes of them, and some of the others at even steps.

    Each visual token as it enters the layer that has just run is a source, each as it leaves, after a norm, a target.
    Moving one to the other costs the distance of their features, that of their places on the picture, and that of the
    source from its centre; Sinkhorn's iterations turn costs into a matrix of contributions, and a source ranks by the
    sum of its row. All distances lie in 0 … 1, or 0 … 2 for features.

    No code is public and the description names no constants: every default here is ours.
    features, places, centre: weights of the three costs. temperature: costs are divided by it. iterations: of
    Sinkhorn; each but the last ends at the rows, the last at the columns. At convergence all rows would sum to the same
    and rank nothing, so that few iterations are meant. recovered: share of the budget that goes to pruned tokens at
    even steps.
    """

    features: float = 1.0
    places: float = 1.0
    centre: float = 1.0
    temperature: float = 0.1
    iterations: int = 3
    recovered: float = 0.1

    name: ClassVar[str] = "topv"
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.LAYERS})
    reference: ClassVar[Reference] = Reference(
        title="TopV: Compatible Token Pruning with Inference Time Optimization for Fast and Low-Memory Multimodal "
        "Vision Language Model",
        arxiv="2503.18278",
        note="from the description: no code is public; weights, temperature, iterations and the recovered share are "
        "ours. The feature distance is 1 − cosine; a target is the layer's output after the norm that follows it; "
        "places are a square raster where the picture's tokens make a square, else their order.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("features", "places", "centre"):
            if not 0 <= getattr(self, option) < float("inf"):
                raise OptionError(f"{option} {getattr(self, option)}: a weight is a number from 0 on")
        if not 0 < self.temperature < float("inf"):
            raise OptionError(f"temperature {self.temperature}: it must be above 0")
        if self.iterations < 1:
            raise OptionError(f"iterations {self.iterations}: at least one is needed")
        if not 0 <= self.recovered < 1:
            raise OptionError(f"recovered {self.recovered} is outside [0, 1)")

    def default_layers(self, num_layers: int) -> Layers:  # noqa: ARG002
        """After two layers, in a decoder of any depth."""
        return (2,)

    def select(self, view: View) -> Selection:
        """Rank each sample's current visual tokens by their contribution to the layer that has just run."""
        source_BSD = view.probed("current").hidden
        norm = view.probed("next").attention().norm
        scores, kept = [], []
        for b, picture in enumerate(view.pictures):
            place = raster(picture.number, picture.schedule.visual_tokens)
            cost = costs(source_BSD[b, picture.rows], norm(view.features(b)), place, self._weights)
            scores.append(contribution(cost, self.temperature, self.iterations))
            kept.append(recover(scores[-1], picture.budget, self.recovered))
        return Selection(tuple(kept), tuple(scores))

    @property
    def _weights(self) -> tuple[float, float, float]:
        return self.features, self.places, self.centre

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the cosine of every source and target; the rest multiplies no matrices."""
        return sizes.visual * sizes.visual * shape.hidden


def raster(number: Tensor, count: int) -> Tensor:
    """[N, 2] row and column, or [N, 1] order, of tokens `number` [N] of `count`, each axis from 0 to 1.

    Rows and columns where `count` is a square, as a whole picture's tokens often are; nothing else is known here.
    """
    side = isqrt(count)
    if side * side != count:
        return number[:, None] / max(count - 1, 1)
    row = torch.div(number, side, rounding_mode="floor")
    return torch.stack([row, number - row * side], dim=1) / max(side - 1, 1)


@torch.no_grad()
def costs(source: FeaturesND, target: FeaturesND, place: Tensor, weights: tuple[float, float, float]) -> Tensor:
    """[N, N] what it costs to move source i to target j: features, places, and the source's distance to the centre.

    From the description. 1 − cos(source_i, target_j), ‖p_i − p_j‖ over the picture's diagonal, ‖p_i − centre‖ over half
    of it, each times its weight. source, target: [N, D]; place: [N, 1 or 2] in 0 … 1; weights: of the three, in order.
    """
    wide = torch.promote_types(source.dtype, torch.float32)
    ours, theirs = (F.normalize(part.to(wide), dim=-1) for part in (source, target))
    place = place.to(wide)
    diagonal = sqrt(place.shape[1])
    # Differences of pairs, since `torch.cdist` multiplies matrices and loses digits of small distances.
    apart = (place[:, None] - place[None]).square().sum(dim=-1).sqrt() / diagonal
    centre = (place - 0.5).square().sum(dim=-1, keepdim=True).sqrt() * 2 / diagonal
    return weights[0] * (1 - ours @ theirs.T) + weights[1] * apart + weights[2] * centre


@torch.no_grad()
def contribution(cost: Tensor, temperature: float, iterations: int) -> ScoresN:
    """[N] how much each source contributes: the row sums of exp(−cost / temperature) after Sinkhorn's iterations.

    From the description. Columns are normalised, then rows, …, columns at the end, so that each target is made of
    parts that sum to 1; in the log domain. cost: [N, N], sources by targets.
    """
    log = -cost / temperature
    for iteration in range(iterations):
        if iteration:
            log = log - log.logsumexp(dim=1, keepdim=True)
        log = log - log.logsumexp(dim=0, keepdim=True)
    return log.exp().sum(dim=1)


def recover(scores: ScoresN, budget: int, share: float) -> KeptK:
    """The highest scores, and pruned tokens at even steps of their order, in number round(budget · share).

    From the description; the share is ours. At least one token stays by its score. scores: [N]; budget: K in 1 … N.
    Returns [K] ascending; ties go to the lower index. Raises OptionError for scores that are not finite.
    """
    again = min(round(budget * share), budget - 1)
    best = top_k(scores, budget - again)
    if not again:
        return best
    pruned = torch.ones_like(scores, dtype=torch.bool).index_fill(0, best, False)
    left = pruned.int().argsort(descending=True, stable=True)[: len(scores) - len(best)]
    return torch.cat([best, left[to_device(stride(len(left), again), left.device)]]).sort().values
