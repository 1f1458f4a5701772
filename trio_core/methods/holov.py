"""HoloV: retention of the holistic visual context (arXiv 2510.02912)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.methods.crops import TowerMethod, all_tokens, crops_of
from trio_core.methods.method import Reference, within
from trio_core.methods.view import Sample, Selection, View
from trio_core.rules.checks import check_budget, check_finite
from trio_core.tensors import KeptK, ScoresN


def chunk_budgets(attention: ScoresN, budget: int, sizes: list[int]) -> Tensor:
    """[P]: how many tokens each chunk may keep. It may be more than the chunk has.

    A chunk gets ⌊w · K⌋ tokens. Its share w is its mean attention over the sum of all chunks' means. The tokens that
    the floors leave over go to the largest shares, one each. Ties go to the lower index.

    attention: [N], not negative, in raster order.
    budget: K.
    sizes: how many tokens each chunk has.

    Source: obananas/HoloV at 1d2e65e.
    """
    means = torch.stack([chunk.double().mean() for chunk in attention.split(sizes)])
    total = means.sum()
    share = torch.where(total > 0, means / total, 1 / len(sizes))
    budgets = (share * budget).floor().long()
    # Comparing ranks avoids a host sync: a slice would need the number of left-over tokens on the host.
    rank = share.argsort(descending=True, stable=True).argsort()
    return budgets + (rank < budget - budgets.sum())


def holov(attention: ScoresN, budget: int, chunks: int = 16) -> KeptK:
    """The most attended tokens of each chunk, as many as `chunk_budgets` gives it: [K] indices, ascending.

    attention: [N], not negative, in raster order. Ties go to the lower index.
    budget: K, 1 … N.
    chunks: how many consecutive chunks the tokens are cut into. The first ones are longer by one token where need be.

    The host waits only for the check of the inputs.
    Raises OptionError for a budget out of range, and for NaN or infinity.
    Source: NeurIPS 2025, obananas/HoloV at 1d2e65e. Deliberate difference: what a chunk is given beyond its size goes
    to the most attended of all other tokens. The released code appends zero vectors.
    """
    count = len(attention)
    check_budget(budget, count)
    check_finite("attention", attention)
    chunks = min(chunks, count)  # none is empty
    sizes = [count // chunks + (i < count % chunks) for i in range(chunks)]
    budgets = chunk_budgets(attention, budget, sizes)
    within_budget = torch.cat(
        [
            chunk.argsort(descending=True, stable=True).argsort() < budgets[i]
            for i, chunk in enumerate(attention.split(sizes))
        ]
    )
    # First the tokens within their chunk's budget, then the others, each group by attention. The first K stay.
    order = attention.argsort(descending=True, stable=True)
    order = order[(~within_budget[order]).long().argsort(stable=True)]
    return order[:budget].sort().values


@dataclass(frozen=True, kw_only=True)
class HoloV(TowerMethod):
    """Keep the most attended tokens of each strip of the picture.

    The strips share the budget by their attention.

    chunks: number of strips. A strip is a run of tokens in raster order, over all crops one after another.
    """

    chunks: int = within("[1, inf)", 16)

    name: ClassVar[str] = "holov"
    reference: ClassVar[Reference] = Reference(
        title='Don\'t Just Chase "Highlighted Tokens" in MLLMs: Revisiting Visual Holistic Context Retention',
        arxiv="2510.02912",
        repository="obananas/HoloV",
        commit="1d2e65e961e698ff0e7d5bb4625489177dd9deba",
        note="The paper adds a variance to the score, but in the released code it cancels out. It is left out here. If "
        "a strip receives a larger budget than it has tokens, it passes the rest on. The released code appends zero "
        "vectors. Kept tokens stand in raster order, not in the order of attention. On Qwen the released code cuts "
        "int(1024/576 · N/K) strips. It also leaves the attention in the order of the tower's windows, so it scores "
        "the wrong tokens. Here there are `chunks` strips in every family, and the attention is in raster order.",
    )

    def select(self, view: View) -> Selection:
        """Divide each sample's budget once, over all its crops."""
        return Selection(tuple(self._sample(sample) for sample in view.samples))

    def _sample(self, sample: Sample) -> KeptK:
        if sample.keeps_all:
            return all_tokens(sample)
        patches = torch.cat([crop.tokens for crop in crops_of(sample)])
        attention = sample.view.encoder.attention_of(sample.index)[patches]
        return patches[holov(attention, sample.budget, self.chunks)].sort().values
