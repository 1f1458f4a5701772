"""Rounds: every cell of a block runs once, and the dense model several times among them, in a random order.

So all cells see the same minutes of the machine, and what drifts slowly cancels in the ratios. A fixed order would fail
under periodic noise [Abedi & Brecht 2017]. The runs of a round are prefills, or whole generations. `generation.py` says
what each time is.
"""

import gc
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from trio_core.methods.method import Method
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import disturbance
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.generation import Times, timed
from trio_profile.profilers.gpu import Gpu, NotAvailable
from trio_profile.records.schema import Round, Timed
from trio_profile.records.timing import LEAST_CLOCK, Phase

PAIRS = 3
"""How often a new picture and the repeated one are compared."""


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
    phase: Phase,
    draw: random.Random,
    clock: Clock,
    gpu: Gpu | None = None,
) -> Round:
    """Run one round, and return it. A round in which the GPU was slow, and gave a reason, is marked as discarded.

    methods: of the cells, by their ids.
    draw: draws the order.
    gpu: None without one, or if it cannot be asked.
    Raises CellFailed if a method's run fails. An error of the dense model is raised as it is.
    """
    order = [*[""] * dense_runs(len(methods)), *methods]
    draw.shuffle(order)
    begin, before = time.perf_counter(), gpu.clock_mhz() if gpu else None
    runs = tuple(_run(workload, cell, methods.get(cell), phase, clock) for cell in order)
    after = gpu.clock_mhz() if gpu else None
    mhz = None if before is None or after is None else min(before, after)
    slowed_by = gpu.slowed_by() if gpu else ()
    is_slow = gpu is not None and mhz is not None and mhz < LEAST_CLOCK * gpu.full_clock_mhz()
    return Round(
        phase=phase,
        runs=runs,
        seconds=time.perf_counter() - begin,
        discarded=bool(is_slow and slowed_by),  # without a reason it may have been idle between rounds
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


def _run(workload: Workload, cell: str, method: Method | None, phase: Phase, clock: Clock) -> Timed:
    before = disturbance.read()
    try:
        with workload.pruned(method):
            times = run(workload, clock, phase)
    except Exception as error:
        if method is None:
            raise
        raise CellFailed(cell) from error
    whole = phase == "generation"
    return Timed(
        cell=cell,
        prefill_ms=times.prefill_ms,
        total_ms=times.total_ms if whole else None,
        ttft_ms=times.ttft_ms if whole else None,
        host_ms=times.host_ms,
        cpu_ms=times.cpu_ms,
        vision_ms=times.parts.get("vision"),
        projector_ms=times.parts.get("projector"),
        selection_ms=times.parts.get("selection"),
        disturbance=disturbance.change(before, disturbance.read()),
    )


def run(workload: Workload, clock: Clock, phase: Phase = "generation") -> Times:
    """Return the times of one run of the model in its present state."""
    work = workload.generate if phase == "generation" else workload.prefill
    return timed(workload.model, workload.adapter, work, clock)


def distinct_ratios(workload: Workload, *, seed: int, clock: Clock | None = None) -> tuple[float, ...]:
    """Return the dense prefill times of new pictures over those of the workload's own picture, measured in turn.

    This is MLPerf's TEST04: if something caches the result of a picture, repeating the picture is faster.
    """
    clock = clock or clock_for(workload.device)
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    ratios: list[float] = []
    with quiet():
        run(workload, clock, "prefill")
        for _ in range(PAIRS):
            other = workload.redrawn(generator)
            order = draw.sample((True, False), 2)
            times = {is_new: run(other if is_new else workload, clock, "prefill").prefill_ms for is_new in order}
            ratios.append(times[True] / times[False])
    return tuple(ratios)


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
