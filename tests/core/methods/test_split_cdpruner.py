"""Split CDPruner: by hand, against the determinants themselves, and inside the models."""

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.methods import towers
from tests.core.rules.test_selection import dpp_map_in_a_loop
from trio_core.methods.cdpruner import SplitCDPruner, split_cdpruner

FEATURES = torch.tensor([(1, 0), (0.6, 0.8), (1, 0), (0, 1)])
SCORES = torch.tensor([0.2, 0.4, 0.9, 0.1])


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_each_half_gives_its_most_relevant_token_and_the_whole_picture_gives_others():
    """In the halves the relevances are (0, 1) and (1, 0): the diagonals are (½, 1) and (1, ½).

    In the whole they are (⅛, ⅜, 1, 0). Token 2 comes first. It leaves 0.51 − 0.56² = 0.19 of token 0,
    0.57 − 0.41² = 0.40 of token 1, and ½ of token 3.
    """
    assert split_cdpruner(FEATURES, SCORES, 2, 0.5, split=True).tolist() == [1, 2]
    assert split_cdpruner(FEATURES, SCORES, 2, 0.5, split=False).tolist() == [2, 3]


def test_weight_0_is_diversity_alone_and_weight_1_the_papers_kernel():
    """Three directions, two of them twice. With weight 1 the least relevant token has the variance 0."""
    features = torch.tensor([(1.0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
    scores = torch.tensor([0.0, 0.9, 0.5, 0.3])
    assert split_cdpruner(features, scores, 3, 0.0, split=False).tolist() == [0, 2, 3]
    assert split_cdpruner(features, scores, 3, 1.0, split=False).tolist() == [1, 2, 3]


# --- the plain form --------------------------------------------------------------------------------------------------


def plain(features: Tensor, scores: Tensor, budget: int, split: bool) -> list[int]:
    """Always the token that makes the determinant of the kept ones' kernel largest, half by half."""
    middle, share = (len(scores) // 2, budget // 2) if split else (0, 0)
    kept = []
    for start, end, few in ((0, middle, share), (middle, len(scores), budget - share)):
        if few:
            unit = torch.nn.functional.normalize(features[start:end].double(), dim=-1)
            seen = scores[start:end].double()
            relevances = (seen - seen.min()) / (seen.max() - seen.min() + 1e-6)
            kernel = 0.5 * (unit @ unit.T) + 0.5 * torch.outer(relevances, relevances) * (unit @ unit.T)
            kept += [start + token for token in dpp_map_in_a_loop(kernel, few)]
    return kept


@pytest.mark.parametrize(("retention", "split"), [(0.17, False), (0.6, True)])
@towers.families
def test_inside_the_models(family, retention, split):
    def choose(crops: list[towers.Crop], budget: int, one: dict[str, Tensor]) -> list[int]:
        entering, visual = towers.entering(tiny.model(family), one), tiny.visual_rows(one)
        near = torch.cat([visual - 1, visual, visual + 1])
        words = entering[~torch.isin(torch.arange(len(entering)), near)].double().mean(dim=0)
        kept = []
        for crop, share in zip(crops, towers.crop_budgets(crops, budget), strict=True):
            tokens = crop.projected[crop.patches]
            scores = torch.cosine_similarity(tokens, words, dim=-1)
            kept += [crop.numbers[crop.patches[i]] for i in plain(tokens, scores, share, split)]
        return kept

    towers.check_selection(family, SplitCDPruner(retention=retention, split=split), choose)
