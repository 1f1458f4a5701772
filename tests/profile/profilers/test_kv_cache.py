import pytest
import torch
from transformers import DynamicCache

from trio_core.methods.grid import Grid
from trio_profile.profilers import kv_cache


@pytest.mark.parametrize("retention", [0.3, 0.55, 1.0])
def test_held_bytes_are_the_predicted_ones_in_every_layer(tiny_workload, retention):
    method = Grid(retention=retention)
    schedule = method.schedule(36, 6)
    held, _ = kv_cache.measure(tiny_workload, method)
    shape = tiny_workload.shape
    assert held == [(n + shape.text_tokens) * 2 * 32 * 4 for n in schedule.tokens_by_layer]
    assert sum(held) == kv_cache.predicted_bytes(shape, schedule.tokens_by_layer)


def test_held_bytes_of_a_cache_made_by_hand():
    cache = DynamicCache()
    for layer, tokens in enumerate((7, 3)):
        cache.update(torch.zeros(2, 4, tokens, 8), torch.zeros(2, 4, tokens, 8), layer)
    assert kv_cache.held_bytes(cache) == [2 * 2 * 4 * 7 * 8 * 4, 2 * 2 * 4 * 3 * 8 * 4]
