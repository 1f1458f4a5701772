"""The first gate: what a pruned prefill costs beside a dense one, what the choice costs, and what the solver costs.

Times on shared machines mean something only as ratios of interleaved runs: those stand in `extra_info`, with the exact
counts (MACs, bytes) that must never grow.
"""

from contextlib import nullcontext
from typing import Literal

import pytest

from trio_core import Schedule, methods, prune
from trio_core.method import Method
from trio_core.methods.trio import Trio
from trio_profile import cost_model
from trio_profile.intervals import median, median_interval
from trio_profile.profilers import flops_counted, kv_cache, latency
from trio_profile.workload import Workload

RETENTION = 64 / 576


def interleaved(benchmark, pocket: Workload, base: Method | None, method: Method, rounds: int) -> dict[str, object]:
    """Time prefills under `base` (None is dense) and `method` in turn: the paired ratio method / base."""
    clock = latency.HostClock()
    ratios: list[float] = []

    def pair() -> None:
        start = clock.mark()
        with nullcontext() if base is None else prune(pocket.model, base):
            pocket.prefill()
        middle = clock.mark()
        with prune(pocket.model, method):
            pocket.prefill()
        ratios.append(clock.elapsed_ms(middle, clock.mark()) / clock.elapsed_ms(start, middle))

    benchmark.pedantic(pair, rounds=rounds, warmup_rounds=2)
    values = ratios[2:]
    return {"median": median(values), "ci95": list(median_interval(values)), "samples": len(values)}


@pytest.mark.benchmark(group="prefill, pruned beside dense")
@pytest.mark.parametrize("name", methods.names())
def test_pruned_over_dense(benchmark, pocket: Workload, name: str):
    method = methods.find(name)(retention=RETENTION)
    counted, trace = flops_counted.measure(pocket, method)
    dense, _ = flops_counted.measure(pocket, None)
    assert trace is not None
    benchmark.extra_info.update(
        pruned_over_dense=interleaved(benchmark, pocket, None, method, rounds=15),
        counted_macs=counted.torch_flops // 2,
        selection_macs=counted.selection_flops // 2,
        dense_macs=dense.torch_flops // 2,
        kv_bytes=sum(kv_cache.measure(pocket, method)),
        retention=trace.realised_retention,
    )
    assert counted.torch_flops < dense.torch_flops


@pytest.mark.benchmark(group="prefill, TRIO beside random")
@pytest.mark.parametrize("saliency", ["tail", "autograd"])
def test_trio_over_random(benchmark, pocket: Workload, saliency: Literal["tail", "autograd"]):
    random = methods.find("random")(retention=RETENTION)
    trio = Trio(retention=RETENTION, saliency=saliency)
    benchmark.extra_info.update(trio_over_random=interleaved(benchmark, pocket, random, trio, rounds=21))


@pytest.mark.benchmark(group="analysis")
def test_a_hundred_schedules_with_their_work(benchmark):
    def solve() -> int:
        total = 0
        for i in range(100):
            schedule = Schedule.average(retention=0.05 + i * 0.0095, visual_tokens=2880, num_layers=32)
            total += cost_model.fastv_inference(schedule.tokens_by_layer, 4096, 11008)
        return total

    benchmark.extra_info.update(fastv_macs=benchmark(solve))
