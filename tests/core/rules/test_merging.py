"""VisionZip's contextual tokens against a case worked by hand and a loop over tokens."""

import pytest
import torch

from trio_core.rules.merging import contextual, density_peaks, joined, squared_distances
from trio_core.rules.selection import top_k


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_card_s_example(dtype):
    # methods.md, card 6: eight patches, two dominant ones, features that are the index.
    attention = torch.tensor([0.1, 0.9, 0.2, 0.8, 0.3, 0.05, 0.15, 0.25], dtype=dtype)
    dominant = top_k(attention, 2)
    assert dominant.tolist() == [1, 3]
    remaining = torch.tensor([0, 2, 4, 5, 6, 7])
    keys = torch.tensor([[1, 0], [1, 0.1], [0, 1], [0.2, 1], [1, 0], [0.1, 1]], dtype=dtype)
    targets, merged, labels = contextual(keys, remaining[:, None].to(dtype), 2)
    assert remaining[targets].tolist() == [0, 5]
    assert labels.tolist() == [-1, 0, 1, -1, 0, 1]
    assert merged.dtype == dtype and merged.flatten().tolist() == [4, 10.5]


def test_equal_cosines_go_to_the_lower_target_and_a_lonely_target_stays_itself():
    hidden = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    targets, merged, _ = contextual(torch.ones(4, 2), hidden, 2)
    assert targets.tolist() == [0, 2]
    assert merged.flatten().tolist() == [1 + (10 + 1000) / 2, 100]


def test_a_token_of_a_cluster_joins_the_kept_token_of_that_cluster():
    assert joined(torch.tensor([2, 5]), torch.tensor([1, -1, 0, 0, 1, 1])).tolist() == [5, -1, 2, 2, 5, 5]


def test_density_peaks_are_dense_and_far_from_denser_tokens():
    """The mean squares are 1.95, 0.81, 2.09, 22.4 and 37.4. The next denser tokens are 1, ∞, 1.2, 7.8 and 2.5 away."""
    squared = squared_distances(torch.tensor([[0.0], [1], [2.2], [10], [12.5]]))
    assert density_peaks(squared, 3).tolist() == [1, 2, 0, 3, 4]
