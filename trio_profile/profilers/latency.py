"""Prefill and total time as paired samples: dense and pruned in turn, in random order within a pair, in one process.

`prefill_ms` is from the first module that runs, which is the vision tower's, to the end of the model's first forward,
the choice of tokens included; `total_ms` the whole of `generate` for a fixed number of new tokens. Both come from the
same run.
"""

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from trio_core.method import Method
from trio_core.pruning import prune
from trio_profile.intervals import relative_half_width
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.schema import Pair, Stopped
from trio_profile.workload import Workload

WARMUPS = 2
LEAST_PAIRS = 6
"""Fewer pairs cannot bear a 95 % interval of a median."""
MOST_PAIRS = 200


@dataclass(frozen=True)
class Latency:
    """The pairs of one cell, and why sampling stopped."""

    pairs: tuple[Pair, ...]
    warmups: int
    stopped: Stopped


def measure(
    workload: Workload, method: Method, *, precision: float, seconds: float, seed: int, clock: Clock | None = None
) -> Latency:
    """Sample pairs until the interval of the prefill speed-up is as narrow as asked, or the time is spent.

    precision: half width of the median's 95 % interval over the median. seconds: of measured time, warm-up apart.
    """
    clock = clock or clock_for(workload.device)
    order = random.Random(seed)
    pairs: list[Pair] = []
    with _quiet():
        for _ in range(WARMUPS):
            _pair(workload, method, clock, dense_first=True)
        spent_ms = 0.0
        while len(pairs) < MOST_PAIRS:
            pair = _pair(workload, method, clock, dense_first=order.random() < 0.5)
            pairs.append(pair)
            spent_ms += pair.dense_total_ms + pair.total_ms
            if len(pairs) < LEAST_PAIRS:
                continue
            if relative_half_width([p.dense_prefill_ms / p.prefill_ms for p in pairs]) <= precision:
                return Latency(tuple(pairs), WARMUPS, "converged")
            if spent_ms >= 1000 * seconds:
                break
    return Latency(tuple(pairs), WARMUPS, "budget")


def run(workload: Workload, clock: Clock) -> tuple[float, float]:
    """One generation: (prefill_ms, total_ms)."""
    marks: list[Any] = []

    def first_module(*_: Any) -> None:
        marks.append(clock.mark())
        before.remove()

    def first_forward(*_: Any) -> None:
        marks.append(clock.mark())
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
    return clock.elapsed_ms(*marks), clock.elapsed_ms(start, end)


def _pair(workload: Workload, method: Method, clock: Clock, *, dense_first: bool) -> Pair:
    times: dict[bool, tuple[float, float]] = {}
    for dense in (dense_first, not dense_first):
        with nullcontext() if dense else prune(workload.model, method):
            times[dense] = run(workload, clock)
    (dense_prefill, dense_total), (prefill, total) = times[True], times[False]
    return Pair(
        dense_first=dense_first,
        dense_prefill_ms=dense_prefill,
        dense_total_ms=dense_total,
        prefill_ms=prefill,
        total_ms=total,
    )


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
