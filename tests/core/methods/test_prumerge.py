"""PruMerge: its centres and what merges into them, by hand and against a loop; and what the decoder receives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.core import tiny
from tests.core.methods import towers
from trio_core import UnsupportedModel
from trio_core.methods.prumerge import PruMerge, merge_neighbours, select_centres

# --- centres ---------------------------------------------------------------------------------------------------------


def centres_by_loop(attention: list[float], count: int, plus: bool) -> list[int]:
    ranked = sorted(range(len(attention)), key=lambda patch: -attention[patch])
    samples = [int((i + 0.5) * len(attention) / (count // 2)) for i in range(count // 2)] if plus else []
    centres = ranked[: count - len(samples)]
    centres += [sample for sample in samples if sample not in centres]
    return centres + [patch for patch in ranked if patch not in centres][: count - len(centres)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.booleans(), st.data())
def test_centres_are_those_of_a_loop(values, plus, data):
    count = data.draw(st.integers(0, len(values)))
    expected = centres_by_loop([float(value) for value in values], count, plus)
    assert select_centres(torch.tensor(values, dtype=torch.float32), count, plus=plus).tolist() == expected


# --- what merges into them -------------------------------------------------------------------------------------------


def test_merged_by_hand():
    """Of three patches each takes in both others: too few for 32; the last is the sum of what was not centres."""
    attention, hidden = torch.tensor([0.5, 0.25, 0.125]), torch.tensor([[8.0], [16.0], [32.0]])
    keys = torch.eye(3)
    made = merge_neighbours(attention, keys, hidden, torch.tensor([1, 0]))
    assert made.tolist() == [[16 + 4 + 4], [8 + 4 + 4], [4]]
    assert merge_neighbours(attention, keys, hidden, torch.tensor([], dtype=torch.long)).tolist() == [[4 + 4 + 4]]
    assert merge_neighbours(attention, keys, hidden, torch.tensor([2, 1, 0]))[3].tolist() == [0]


def test_of_34_patches_the_farthest_is_not_taken_in():
    """All keys are alike but one's, which is nearest to nobody; nor does a patch take in itself."""
    keys = torch.ones(34, 2).index_copy(0, torch.tensor([7]), torch.tensor([[-1.0, -1]]))
    hidden = torch.eye(34)
    made = merge_neighbours(torch.full((34,), 0.5), keys, hidden, torch.tensor([3, 7]))
    assert made[0].tolist() == [1 if i == 3 else 0 if i == 7 else 0.5 for i in range(34)]
    # Seven's others are all as far: ties go to the lower index, and the last of 33 falls out.
    assert made[1].tolist() == [1 if i == 7 else 0 if i == 33 else 0.5 for i in range(34)]


def merged_by_loop(attention: Tensor, keys: Tensor, hidden: Tensor, centres: list[int]) -> list[Tensor]:
    made = []
    for i in centres:
        others = [j for j in range(len(hidden)) if j != i]
        likeness = {j: float(torch.cosine_similarity(keys[i], keys[j], dim=0)) for j in others}
        nearest = sorted(others, key=lambda j, likeness=likeness: -likeness[j])[:32]
        made.append(hidden[i] + sum((attention[j] * hidden[j] for j in nearest), torch.zeros_like(hidden[i])))
    rest = [attention[j] * hidden[j] for j in range(len(hidden)) if j not in centres]
    return [*made, sum(rest, torch.zeros_like(hidden[0]))]


# --- inside the model ------------------------------------------------------------------------------------------------


def rule(plus: bool, positions: str = "original") -> towers.Rule:
    """Centres at their own places, the sum at the last patch that leaves; with `compact` the released order."""

    def plain(crop: towers.Crop, there: list[int], budget: int) -> dict[int, Tensor]:
        parts = crop.last_attention[there], crop.last_keys[there], crop.hidden[there]
        centres = centres_by_loop(parts[0].tolist(), budget - 1, plus)
        leaves = max(place for place in range(len(there)) if place not in centres)
        places = [there[place] for place in [*centres, leaves]]
        if positions == "compact":
            places.sort()
        return dict(zip(places, merged_by_loop(*parts, centres), strict=True))

    return plain


@pytest.mark.parametrize(("retention", "plus"), [(0.07, True), (0.07, False), (0.25, True), (0.6, False)])
@towers.with_cls
def test_the_decoder_receives_what_merged(family, retention, plus):
    towers.check_merging(tiny.model(family), tiny.pair(family), PruMerge(retention=retention, plus=plus), rule(plus))


def test_a_tower_without_a_cls_token_is_refused_by_name():
    for family in ("llava_onevision", "qwen2_5_vl"):
        with tiny.refused(UnsupportedModel, r"prumerge ranks patches by .* no CLS token, .*: choose a"):
            tiny.run(tiny.model(family), tiny.sample(family, "small"), "prumerge", retention=0.5)
