"""HoloV: retention of the holistic visual context (arXiv 2510.02912)."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import crops_to_keep_of
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.selection import cosine
from trio_core.tensors import FeaturesND, KeptK, ScoresN


def chunk_sizes(count: int, chunks: int) -> list[int]:
    """`count` tokens in consecutive chunks, the first count mod chunks of them longer by one; as many as have one."""
    chunks = min(chunks, count)
    return [count // chunks + (i < count % chunks) for i in range(chunks)]


@torch.no_grad()
def allocate(scores: ScoresN, budget: int, sizes: list[int]) -> Tensor:
    """[P] tokens that each chunk is given: ⌊w · K⌋, w its share of the chunks' mean scores, and then one each.

    obananas/HoloV at 1d2e65e. What the floors leave over goes to the largest shares, ties to the lower index. A chunk
    may be given more than it has. scores: [N], not negative, in raster order; sizes: of the chunks; budget: K.
    """
    means = torch.stack([part.double().mean() for part in scores.split(sizes)])
    total = means.sum()
    share = torch.where(total > 0, means / total, 1 / len(sizes))
    given = (share * budget).floor().long()
    # On whom the floors leave something over: ranks instead of a slice, so that the host need not know how much.
    rank = share.argsort(descending=True, stable=True).argsort()
    return given + (rank < budget - given.sum())


@torch.no_grad()
def diverse(attention: ScoresN, features: FeaturesND, weight: float, sizes: list[int]) -> ScoresN:
    """[N] attention + weight · variance, on one scale over the whole picture: A_i + α · v_i · mean A / mean v.

    v_i is the variance of the cosines of token i with the others of its chunk, 0 for a token alone in it. This is our
    reading of the paper: the released code brings each chunk's variances to the mean of that chunk's own attention, so
    that every chunk's score is (1 + α) · mean A, and its share what it would be without them.

    attention: [N], in raster order. features: [N, D] projected tokens. weight: α. sizes: of the chunks.
    """
    parts = []
    for part in features.split(sizes):
        others = (1 - torch.eye(len(part), device=part.device, dtype=torch.float64)) / max(len(part) - 1, 1)
        similarity = cosine(part).double()
        mean = (similarity * others).sum(dim=1, keepdim=True)
        parts.append(((similarity - mean).square() * others).sum(dim=1))
    variance, wide = torch.cat(parts), attention.double()
    mean = variance.mean()
    return wide + weight * torch.where(mean > 0, variance * wide.mean() / mean, 0)


@torch.no_grad()
def holov(attention: ScoresN, scores: ScoresN, budget: int, chunks: int = 16) -> KeptK:
    """HoloV's choice: each chunk of the raster order keeps of what it is given (`allocate`) the most attended tokens.

    NeurIPS 2025, obananas/HoloV at 1d2e65e. Deliberate difference: what a chunk is given beyond its size goes to the
    most attended of the tokens that are left, whatever their chunk; the released code appends zero vectors.

    attention: [N], not negative, in raster order; scores: [N] by which chunks are given tokens, the attention itself in
    the released code, where the rest cancels out; budget: K in 1 … N. Returns K indices, ascending; ties go to the
    lower index. The host waits only for the inputs' check. Raises OptionError for a budget out of range and for inputs
    that are not finite.
    """
    count = len(attention)
    if not 1 <= budget <= count:
        raise OptionError(f"budget {budget}: can keep 1 … {count} of {count} tokens")
    if not (attention.isfinite() & scores.isfinite()).all():
        raise OptionError("attention or features hold NaN or infinity: the encoder's output is broken")
    sizes = chunk_sizes(count, chunks)
    given = allocate(scores, budget, sizes)
    allowed = torch.cat(
        [
            part.argsort(descending=True, stable=True).argsort() < given[i]
            for i, part in enumerate(attention.split(sizes))
        ]
    )
    # Those that their chunk keeps first, then the rest, both by attention; the first K of them are those that stay.
    order = attention.argsort(descending=True, stable=True)
    order = order[(~allowed[order]).long().argsort(stable=True)]
    return order[:budget].sort().values


@dataclass(frozen=True, kw_only=True)
class HoloV(Method):
    """Give each of a picture's strips its share of the budget by the attention on it, and keep there the most attended.

    chunks: strips of consecutive tokens in raster order, over all crops together. diversity: the weight of the variance
    of a strip's similarities beside the attention; the paper's is 0.09, which in the released code has no effect.
    """

    chunks: int = 16
    diversity: float = 0.0

    name: ClassVar[str] = "holov"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title='Don\'t Just Chase "Highlighted Tokens" in MLLMs: Revisiting Visual Holistic Context Retention',
        arxiv="2510.02912",
        repository="obananas/HoloV",
        commit="1d2e65e961e698ff0e7d5bb4625489177dd9deba",
        note="The rule in effect: the released variance term cancels out, and is left out; diversity=0.09 puts it on a "
        "scale on which it counts (a chunk of one token has none). A chunk that is given more than it has passes the "
        "rest on, where the released code appends zero vectors; kept tokens stand in raster order, not by attention; "
        "LLaVA-NeXT's newlines go, and padding is cut off its tiles first, which the released code leaves in.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunks < 1:
            raise OptionError(f"chunks {self.chunks}: the picture needs at least 1")
        if not (isfinite(self.diversity) and self.diversity >= 0):
            raise OptionError(f"diversity {self.diversity}: the variance's weight must be finite and at least 0")

    def select(self, view: View) -> Selection:
        """One allocation over all crops, one behind the other."""
        return Selection(tuple(self._sample(view, view.encoder, b) for b in range(len(view.pictures))))

    def _sample(self, view: View, encoder: Encoder, sample: int) -> KeptK:
        budget, places = view.pictures[sample].budget, encoder.places[sample]
        if budget == len(places):
            return torch.arange(budget, device=places.device)
        crops = crops_to_keep_of(encoder, sample, budget)
        patches = torch.cat([there for _, there in crops])
        attention = scores = encoder.by_token(sample, encoder.attention.mean(dim=1))[patches]
        if self.diversity:
            sizes = chunk_sizes(len(patches), self.chunks)
            scores = diverse(attention, view.features(sample)[patches], self.diversity, sizes)
        return patches[holov(attention, scores, budget, self.chunks)].sort().values

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the attention, and with diversity of the similarity of every pair within a chunk.

        All visual tokens are counted as patches: nobody says which are newlines.
        """
        pairs = sum(size * size for size in chunk_sizes(sizes.visual, self.chunks)) if self.diversity else 0
        return shape.encoder_attention_macs(sizes.visual) + pairs * shape.hidden
