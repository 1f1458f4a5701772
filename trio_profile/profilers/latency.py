"""Prefill and total time as paired samples: dense and pruned in turn, in random order within a pair, in one process.

`prefill_ms` is from the first module that runs, which is the vision tower's, to the end of the model's first forward,
the choice of tokens included; `total_ms` the whole of `generate` for a fixed number of new tokens; `ttft_ms` from its
call to the end of the first forward. All come from the same run.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from trio_core.method import Method
from trio_core.pruning import prune
from trio_profile.profilers.clock import Clock, HostClock, clock_for
from trio_profile.profilers.gpu import Gpu, NotAvailable, gpu_for
from trio_profile.schema import Pair, Stopped
from trio_profile.stopping import decide
from trio_profile.workload import Workload

MOST_WARMUPS = 6
SETTLED = 0.15
"""Warm-up ends when two pairs in a row differ by less than this share in both of their prefills; two at the least."""
LEAST_CLOCK = 0.75
"""Of the full SM clock: a pair sampled below it is discarded. [nvbench's throttling rule]."""
MOST_DISCARDED = 50


@dataclass(frozen=True)
class Latency:
    """The pairs of one cell, how many were thrown away, why sampling stopped, and what a GPU said meanwhile."""

    pairs: tuple[Pair, ...]
    warmups: int
    stopped: Stopped
    discarded: int = 0
    slowed_by: tuple[str, ...] = ()
    strangers: int = 0


@dataclass(frozen=True)
class Times:
    """One generation in milliseconds. host_ms: its prefill by the host's clock, None where that is the clock."""

    prefill_ms: float
    ttft_ms: float
    total_ms: float
    host_ms: float | None = None


def measure(
    workload: Workload,
    method: Method,
    *,
    precision: float,
    seconds: float,
    seed: int,
    clock: Clock | None = None,
    gpu: Gpu | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Latency:
    """Sample pairs until the interval of the prefill speed-up is as narrow as asked, or the time is spent.

    precision: half width of the median's 95 % interval over the median. seconds: of measured time, warm-up apart. Pairs
    that a GPU sampled below three quarters of its clock are discarded; after two in a row it is given time to cool.
    """
    clock, gpu = clock or clock_for(workload.device), gpu or _gpu(workload)
    order = random.Random(seed)
    pairs: list[Pair] = []
    discarded = in_a_row = 0
    reasons, strangers = set[str](), set[int]()
    with _quiet():
        warmups = _warm_up(workload, method, clock, seconds)
        spent_ms = 0.0
        while True:
            pair = _pair(workload, method, clock, dense_first=order.random() < 0.5, gpu=gpu)
            spent_ms += pair.dense_total_ms + pair.total_ms
            if gpu is not None:
                reasons.update(gpu.slowed_by())
                strangers.update(gpu.others())
            if _slowed(pair, gpu) and discarded < MOST_DISCARDED:
                discarded, in_a_row = discarded + 1, in_a_row + 1
                if in_a_row > 2:
                    sleep(min(0.05 * 1.5 ** (in_a_row - 2), 5.0))
            else:
                pairs.append(pair)
                in_a_row = 0
            ratios = [p.dense_prefill_ms / p.prefill_ms for p in pairs]
            if stopped := decide(ratios, spent_ms / 1000, precision=precision, seconds=seconds):
                return Latency(
                    tuple(pairs), warmups, stopped, discarded, tuple(sorted(reasons)), strangers=len(strangers)
                )


def distinct_ratios(workload: Workload, *, seed: int, clock: Clock | None = None, pairs: int = 6) -> tuple[float, ...]:
    """Dense prefill times of pictures drawn anew over those of the workload's own, in turn, in random order.

    MLPerf's TEST04: where something keeps what it made of a picture, repeating one picture measures the keeping.
    """
    clock = clock or clock_for(workload.device)
    order, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    with _quiet():
        run(workload, clock)
        for _ in range(pairs):
            fresh = {
                name: torch.randn(value.shape, generator=generator).to(value) if value.is_floating_point() else value
                for name, value in workload.inputs.items()
            }
            both = [(True, replace(workload, inputs=fresh)), (False, workload)]
            order.shuffle(both)
            times = {is_fresh: run(one, clock).prefill_ms for is_fresh, one in both}
            ratios.append(times[True] / times[False])
    return tuple(ratios)


def run(workload: Workload, clock: Clock) -> Times:
    """One generation."""
    marks: list[Any] = []
    host = None if isinstance(clock, HostClock) else HostClock()
    host_marks: list[int] = []

    def mark() -> None:
        marks.append(clock.mark())
        if host is not None:
            host_marks.append(host.mark())

    def first_module(*_: Any) -> None:
        mark()
        before.remove()

    def first_forward(*_: Any) -> None:
        mark()
        after.remove()

    # Of any module, because `generate` may encode the pictures before it calls the model; and before and after
    # whatever else hooks the model, so that pruning is inside what is timed.
    before = register_module_forward_pre_hook(first_module)
    after = workload.model.register_forward_hook(first_forward)
    try:
        start = clock.mark()
        workload.generate()
        end = clock.mark()
    finally:
        before.remove()
        after.remove()
    return Times(
        prefill_ms=clock.elapsed_ms(*marks),
        ttft_ms=clock.elapsed_ms(start, marks[1]),
        total_ms=clock.elapsed_ms(start, end),
        host_ms=None if host is None else host.elapsed_ms(*host_marks),
    )


def _pair(workload: Workload, method: Method, clock: Clock, *, dense_first: bool, gpu: Gpu | None = None) -> Pair:
    times: dict[bool, Times] = {}
    clock_before = gpu.clock_mhz() if gpu else None
    for dense in (dense_first, not dense_first):
        with nullcontext() if dense else prune(workload.model, method):
            times[dense] = run(workload, clock)
    dense, pruned = times[True], times[False]
    return Pair(
        dense_first=dense_first,
        dense_prefill_ms=dense.prefill_ms,
        dense_total_ms=dense.total_ms,
        prefill_ms=pruned.prefill_ms,
        total_ms=pruned.total_ms,
        dense_ttft_ms=dense.ttft_ms,
        ttft_ms=pruned.ttft_ms,
        dense_host_ms=dense.host_ms,
        host_ms=pruned.host_ms,
        clock_mhz=None if gpu is None or clock_before is None else min(clock_before, gpu.clock_mhz()),
    )


def _warm_up(workload: Workload, method: Method, clock: Clock, seconds: float) -> int:
    """Pairs until two in a row agree, or they take as long as a cell may; returns how many."""
    before, spent_ms, count = _pair(workload, method, clock, dense_first=True), 0.0, 1
    while count < MOST_WARMUPS:
        now, count = _pair(workload, method, clock, dense_first=True), count + 1
        spent_ms += now.dense_total_ms + now.total_ms
        changes = (now.dense_prefill_ms / before.dense_prefill_ms, now.prefill_ms / before.prefill_ms)
        if all(abs(change - 1) < SETTLED for change in changes) or spent_ms >= 1000 * seconds:
            break
        before = now
    return count


def _slowed(pair: Pair, gpu: Gpu | None) -> bool:
    return gpu is not None and pair.clock_mhz is not None and pair.clock_mhz < LEAST_CLOCK * gpu.full_clock_mhz()


def _gpu(workload: Workload) -> Gpu | None:
    try:
        return gpu_for(workload.device)
    except NotAvailable:
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """No garbage collection while samples are taken."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
