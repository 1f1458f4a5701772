"""ToMe: a round worked by hand and against a loop over tokens, rounds against a loop over groups, and the decoder."""

from math import sqrt

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods import towers
from trio_core.methods.tome import ToMe, merge_to

# --- worked by hand --------------------------------------------------------------------------------------------------

CARD = torch.tensor([(1, 0), (1, 0.1), (0, 1), (0.9, 0.1), (0.5, 0.5), (0.2, 1)])


def test_what_the_cards_rounds_leave():
    """Where a token stands that others joined, the mean of all of them."""
    hidden = torch.arange(6.0)[:, None]
    for budget, places, values in (
        (5, [1, 2, 3, 4, 5], [0.5, 2, 3, 4, 5]),
        (4, [1, 3, 4, 5], [0.5, 3, 4, 3.5]),
        (3, [1, 3, 5], [0.5, 3, 11 / 3]),
        (6, [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    ):
        kept, made, groups = merge_to(CARD, hidden, budget)
        assert kept.tolist() == places
        assert groups[kept].tolist() == list(range(budget))
        assert made[:, 0].tolist() == pytest.approx(values)


# --- a loop over tokens ----------------------------------------------------------------------------------------------


def by_loop(keys: Tensor, budget: int) -> dict[int, list[int]]:
    """Groups of tokens by the place that they stand at: rounds over lists, each link by its own division."""
    groups = {place: [place] for place in range(len(keys))}
    while len(groups) > budget:
        order = sorted(groups)
        mean = {place: keys[groups[place]].double().mean(dim=0) for place in order}
        links = []
        for a in order[0::2]:
            best = None
            for b in order[1::2]:
                cosine = float(mean[a] @ mean[b]) / sqrt(float(mean[a] @ mean[a]) * float(mean[b] @ mean[b]))
                if best is None or cosine > best[0]:
                    best = cosine, b
            assert best is not None
            links.append((-best[0], a, best[1]))
        for _, a, b in sorted(links)[: min(len(groups) - budget, len(groups) // 2)]:
            groups[b] += groups.pop(a)
    return dict(sorted(groups.items()))


# --- inside the model ------------------------------------------------------------------------------------------------


def plain(crop: towers.Crop, there: list[int], budget: int) -> dict[int, Tensor]:
    groups = by_loop(crop.keys[there], budget)
    return {there[place]: crop.hidden[[there[m] for m in members]].mean(dim=0) for place, members in groups.items()}


@pytest.mark.parametrize("retention", [0.17, 0.6])
@towers.families
def test_the_decoder_receives_what_merged(family, retention):
    towers.check_merging(tiny.model(family), tiny.pair(family), ToMe(retention=retention), plain)
