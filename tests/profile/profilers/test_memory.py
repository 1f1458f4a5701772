import torch

from trio_core.methods.grid import Grid
from trio_profile.profilers import memory


def test_peak_memory_repeats_exactly_and_falls_with_retention(tiny_workload):
    dense, pruned = memory.measure(tiny_workload, None), memory.measure(tiny_workload, Grid(retention=0.3))
    assert dense == memory.measure(tiny_workload, None)
    assert pruned.peak_memory_bytes < dense.peak_memory_bytes
    for peak in (dense, pruned):
        assert 0 < peak.working_memory_bytes < peak.peak_memory_bytes
        assert peak.peak_reserved_bytes is None


def test_a_prefill_without_a_cache_saves_the_bytes_of_the_cache(tiny_workload):
    """At the end of the decoder, where the peak of this model lies, all layers' caches but the last's are there."""
    dense = memory.measure(tiny_workload, None)
    *_, last = held = memory.cache_bytes(tiny_workload, None)[0]
    assert sum(held) - last <= dense.peak_memory_bytes - dense.working_memory_bytes <= sum(held)


def test_live_bytes_of_operators_by_hand():
    held = torch.zeros(1000)
    with memory._LiveBytes([held]) as live:
        a = torch.ones(256)  # 1 KiB
        b = a + 1  # 2 KiB
        del a
        c = b.view(16, 16)  # a view holds nothing of its own
        d = held + 1  # 4000 bytes more
        del d, c
    assert live.peak == 2048 + 4000 - 1024
    assert live.now == 1024


def test_held_bytes_are_the_predicted_ones_in_every_layer(tiny_workload):
    for retention in (0.3, 0.55, 1.0):
        method = Grid(retention=retention)
        schedule = method.schedule(36, 6)
        held, _ = memory.cache_bytes(tiny_workload, method)
        shape = tiny_workload.shape
        assert held == [(n + shape.text_tokens) * 2 * 32 * 4 for n in schedule.tokens_by_layer]
        assert sum(held) == memory.predicted_bytes(shape, schedule.tokens_by_layer)
