"""PixelPrune's rule: by hand, and against a loop. `tests/core/models/test_thin_tower.py` runs it in models."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trio_core import OptionError
from trio_core.methods.pixelprune import FIRST, PixelPrune

METHOD = PixelPrune(retention=0.5)


def picture(*rows: str) -> Tensor:
    """A picture of one pixel a token, whose value is a digit."""
    return torch.tensor([[[float(digit)] for digit in row] for row in rows])


def kept(budget: int, *pictures: Tensor) -> list[int]:
    return METHOD.keep_pixels(pictures, budget).kept.tolist()


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_a_rectangle_is_told_by_its_corners():
    """At threshold 0 the first token and three others are no copies of their prediction.

    5 at (1, 1): its left neighbour is 0. 0 at (1, 3): its left neighbour is 5, and C = A does not hold, so A predicts.
    At (2, 1) C and A are 0 and B is 5: an edge runs down, and B predicts 5, which is right. At (2, 3) C and A are 5
    and B is 0: B is right again. At (3, 1) B predicts 5, and 0 is there. At (3, 3) C is 5 and unlike both, so A, which
    is 0, is right.
    """
    rectangle = picture("0000", "0550", "0550", "0000")
    choice = METHOD.keep_pixels([rectangle], 4)
    assert choice.kept.tolist() == [0, 5, 7, 13]
    assert choice.scores.tolist() == [FIRST, 0, 0, 0, 0, 5, 0, 5, 0, 0, 0, 0, 0, 5, 0, 0]


def test_all_pictures_of_a_sample_share_a_threshold():
    """The second picture's steps are larger, so it keeps more, with its first token."""
    assert kept(4, picture("0123"), picture("0505")) == [0, 4, 5, 6]


def test_the_largest_pixel_difference_counts():
    tokens = torch.tensor([[[0.0, 0.0], [0.3, 0.3], [0.3, 0.8]]])
    assert kept(2, tokens) == [0, 2]


def test_broken_pixels_are_named():
    for broken in (float("nan"), float("inf")):
        with pytest.raises(OptionError, match="pixel values hold NaN or infinity"):
            METHOD.keep_pixels([torch.tensor([[[0.0], [broken]]])], 1)


# --- the plain form --------------------------------------------------------------------------------------------------


def plain(rows: list[list[int]], threshold: float) -> list[float]:
    """The error of each token, in a loop."""
    found = []
    for r, row in enumerate(rows):
        for c, x in enumerate(row):
            a, b = (row[c - 1] if c else None), (rows[r - 1][c] if r else None)
            if a is None or b is None:
                near = a if b is None else b
                found.append(FIRST if near is None else abs(x - near))
                continue
            corner = rows[r - 1][c - 1]
            edge_runs_down = abs(corner - a) <= threshold < abs(corner - b)
            found.append(abs(x - (b if edge_runs_down else a)))
    return found


@given(st.data())
def test_the_worst_predicted_stay_at_a_threshold_that_few_exceed(data):
    """At most K tokens exceed it, and at the next smaller distance more would."""
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 6), min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=height, max_size=height))
    budget = data.draw(st.integers(1, height * width))
    choice = METHOD.keep_pixels([torch.tensor(rows).float()[..., None]], budget)
    scores = choice.scores.tolist()
    down = [abs(x - y) for above, below in pairwise(rows) for x, y in zip(above, below, strict=True)]
    thresholds = sorted({0, *down, *(abs(x - y) for line in rows for x, y in pairwise(line))})

    def exceeding(threshold: int) -> int:
        return sum(error > threshold for error in plain(rows, threshold))

    assert any(
        plain(rows, threshold) == scores
        and exceeding(threshold) <= budget
        and (place == 0 or exceeding(thresholds[place - 1]) > budget)
        for place, threshold in enumerate(thresholds)
    )
    worst = sorted(range(height * width), key=lambda token: (-scores[token], token))[:budget]
    assert choice.kept.tolist() == sorted(worst)
