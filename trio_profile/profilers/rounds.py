"""Rounds: every cell of a block runs once, and the dense model several times among them, in a random order.

So all cells see the same minutes of the machine, and what drifts slowly cancels in the ratios. A fixed order would fail
under periodic noise [Abedi & Brecht 2017]. The runs of a round are prefills, or whole generations. `generation.py` says
what each time is.
"""

import gc
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from trio_core.methods.method import Method
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.clock import Clock
from trio_profile.profilers.generation import timed
from trio_profile.profilers.gpu import Gpu, NotAvailable
from trio_profile.records.schema import Round, Timed
from trio_profile.records.timing import LEAST_CLOCK, Disturbance, RunPhase

THREADS = "/proc/self/task"


class CellFailed(Exception):
    """A cell's run failed. Its cause is the error.

    cell: id of the cell.
    """

    def __init__(self, cell: str):
        super().__init__(cell)
        self.cell = cell


def measure(
    workload: Workload,
    methods: Mapping[str, Method],
    phase: RunPhase,
    draw: random.Random,
    clock: Clock,
    gpu: Gpu | None = None,
) -> Round:
    """Run one round, and return it. A round in which the GPU was slow, and gave a reason, is marked as discarded.

    The clock is read behind the first run and behind the last one: before the first one the GPU may be idle.

    methods: of the cells, by their ids.
    draw: draws the order.
    gpu: None without one, or if it cannot be asked.
    Raises CellFailed if a method's run fails. An error of the dense model is raised as it is.
    """
    order = [*[""] * dense_runs(len(methods)), *methods]
    draw.shuffle(order)
    begin = time.perf_counter()
    runs: list[Timed] = []
    clocks: list[int | None] = []
    for cell in order:
        runs.append(_run(workload, cell, methods.get(cell), phase, clock))
        if gpu and len(runs) in (1, len(order)):
            clocks.append(gpu.clock_mhz())
    mhz = min((reading for reading in clocks if reading is not None), default=None)
    slowed_by = gpu.slowed_by() if gpu else ()
    full = gpu.full_clock_mhz if gpu else None
    is_slow = full is not None and mhz is not None and mhz < LEAST_CLOCK * full
    return Round(
        phase=phase,
        runs=tuple(runs),
        seconds=time.perf_counter() - begin,
        discarded=bool(is_slow and slowed_by),  # without a reason the GPU had too little to do
        clock_mhz=mhz,
        slowed_by=slowed_by,
        strangers=len(gpu.others()) if gpu else 0,
    )


def dense_runs(cells: int) -> int:
    """Return how often the dense model runs in a round: √cells, rounded.

    Every ratio has the error of the dense runs and of one run of its cell. With √cells dense runs, the mean squared
    error of all ratios is the least for the number of runs in all.
    """
    return max(round(cells**0.5), 1)


def _run(workload: Workload, cell: str, method: Method | None, phase: RunPhase, clock: Clock) -> Timed:
    before, begin = delays_ns(), time.perf_counter()
    try:
        with workload.pruned(method):
            times = run(workload, clock, phase)
    except Exception as error:
        if method is None:
            raise
        raise CellFailed(cell) from error
    delay_ms = longest_delay_ms(before, delays_ns())
    fields = {"cell": cell, "disturbance": Disturbance(seconds=time.perf_counter() - begin, delay_ms=delay_ms)}
    return times.model_copy(update=fields if phase == "generation" else fields | {"total_ms": None, "ttft_ms": None})


def delays_ns() -> dict[str, int]:
    """Return for how long each thread of this process was ready but had no CPU, in nanoseconds, by thread.

    The counters of Linux grow from the beginning of a thread. Where a system hides them, nothing is returned.
    """
    delays: dict[str, int] = {}
    with suppress(OSError):
        for thread in os.listdir(THREADS):  # noqa: PTH208 - faster than Path.iterdir
            with suppress(OSError, ValueError, IndexError):
                delays[thread] = int(Path(f"{THREADS}/{thread}/schedstat").read_bytes().split()[1])
    return delays


def longest_delay_ms(before: dict[str, int], after: dict[str, int]) -> float | None:
    """Return for how long the thread that waited longest had no CPU between two readings; None if they are hidden.

    A new thread began at 0; one that has ended is left out. Threads wait at once, so their delays do not add up.
    """
    delays = [max(delay - before.get(thread, 0), 0) for thread, delay in after.items()]
    return max(delays) / 1e6 if before and delays else None


def run(workload: Workload, clock: Clock, phase: RunPhase = "generation") -> Timed:
    """Return the times of one run of the model in its present state."""
    work = workload.generate if phase == "generation" else workload.prefill
    return timed(workload.model, workload.adapter, work, clock)


def gpu_of(workload: Workload) -> Gpu | None:
    """Return the GPU that a workload runs on; None without one, or if it cannot be asked."""
    try:
        return Gpu(workload.device)
    except NotAvailable:
        return None


@contextmanager
def quiet() -> Iterator[None]:
    """Switch garbage collection off while samples are taken."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
