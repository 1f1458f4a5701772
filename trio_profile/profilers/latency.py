"""Times as paired samples: dense and pruned in turn, in a balanced order, in one process.

All times of a pair come from the same two runs. `generation.py` says what each time is.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice

import torch

from trio_core.methods.method import Method
from trio_core.pruning import prune
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import disturbance
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.generation import Times, run
from trio_profile.profilers.gpu import Gpu, NotAvailable, gpu_for
from trio_profile.records.schema import Disturbance, Pair, Stopped
from trio_profile.records.timing import LEAST_CLOCK
from trio_profile.stats.orders import balanced_orders
from trio_profile.stats.stopping import LEAST_SAMPLES, decide

MOST_WARMUPS = 6
SETTLED = 0.15
"""Warm-up ends when all prefills of two rounds in a row differ by less than this share."""
MOST_DISCARDED = 50


@dataclass(frozen=True)
class Latency:
    """The measured pairs of one cell.

    pairs: in the order in which they were measured.
    warmups: rounds before the first pair.
    stopped: why sampling ended.
    seconds: measured time of the method's runs and of its share of the dense runs.
    discarded: rounds that were discarded because the GPU was slow.
    slowed_by: the reasons that the GPU gave for a lower clock.
    strangers: number of other processes on the GPU.
    """

    pairs: tuple[Pair, ...]
    warmups: int
    stopped: Stopped
    seconds: float
    discarded: int = 0
    slowed_by: tuple[str, ...] = ()
    strangers: int = 0


def measure(
    workload: Workload,
    methods: Sequence[Method],
    *,
    precision: float,
    seconds: Sequence[float],
    seed: int,
    least: int = LEAST_SAMPLES,
    settled_ms: float | None = None,
    clock: Clock | None = None,
    gpu: Gpu | None = None,
    sleep: Callable[[float], None] = time.sleep,
    report: Callable[[dict[int, tuple[int, float]]], None] | None = None,
) -> Iterator[tuple[int, Latency]]:
    """Measure rounds, and yield (index of the method, its pairs) as soon as a method has enough pairs.

    A round runs the dense model and every remaining method once, in a balanced order. A method has enough pairs when
    the interval of its prefill speed-up is narrow enough, or when its time is spent; then a new block of rounds begins
    for the rest. Rounds with a GPU clock below three quarters are discarded if the GPU gives a reason. After two such
    rounds in a row the GPU gets time to cool.

    precision: half width of the median's 95 % interval, divided by the median.
    seconds: measured time of each method without warm-up. The dense runs are divided among the methods.
    least: the least number of pairs of each method.
    settled_ms: the dense prefill after an earlier warm-up in this process; None if this is the first.
    seed: of the order.
    clock, gpu, sleep: a test may replace them.
    report: called after each round, by method with the number of its pairs and its measured seconds.
    """
    clock, gpu = clock or clock_for(workload.device), gpu or _gpu(workload)
    sampled: dict[int, list[Pair]] = {which: [] for which in range(len(methods))}
    spent_ms = dict.fromkeys(sampled, 0.0)
    orders = _orders(sampled, seed)
    discarded = in_a_row = 0
    reasons, strangers = set[str](), set[int]()
    with quiet():
        warmups = _warm_up(workload, methods, clock, sum(seconds), settled_ms)
        while sampled:
            pairs = measure_round(workload, {which: methods[which] for which in sampled}, clock, next(orders), gpu)
            for which, pair in pairs.items():
                spent_ms[which] += pair.dense_total_ms / len(pairs) + pair.total_ms
            slowed_by, others = (gpu.slowed_by(), gpu.others()) if gpu is not None else ((), ())
            reasons.update(slowed_by)
            strangers.update(others)
            if _slowed(pairs, gpu, slowed_by) and discarded < MOST_DISCARDED:
                discarded, in_a_row = discarded + 1, in_a_row + 1
                if in_a_row > 2:
                    sleep(min(0.05 * 1.5 ** (in_a_row - 2), 5.0))
            else:
                in_a_row = 0
                for which, pair in pairs.items():
                    sampled[which].append(pair)
            if report is not None:
                report({which: (len(sampled[which]), spent_ms[which] / 1000) for which in pairs})
            for which in pairs:
                ratios, spent = [p.dense_prefill_ms / p.prefill_ms for p in sampled[which]], spent_ms[which] / 1000
                if stopped := decide(ratios, spent, precision=precision, seconds=seconds[which], least=least):
                    found, why = tuple(sampled.pop(which)), tuple(sorted(reasons))
                    orders = _orders(sampled, seed)
                    yield which, Latency(found, warmups, stopped, spent, discarded, why, len(strangers))


def distinct_ratios(workload: Workload, *, seed: int, clock: Clock | None = None, pairs: int = 6) -> tuple[float, ...]:
    """Dense prefill times of new pictures divided by those of the workload's own picture, measured in turn.

    This is MLPerf's TEST04: if something caches the result of a picture, repeating the picture is faster.
    """
    clock = clock or clock_for(workload.device)
    generator = torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    with quiet():
        run(workload, clock)
        for order in islice(balanced_orders((True, False), seed), pairs):
            fresh = workload.redrawn(generator)
            times = {is_fresh: run(fresh if is_fresh else workload, clock).prefill_ms for is_fresh in order}
            ratios.append(times[True] / times[False])
    return tuple(ratios)


def _orders(methods: Mapping[int, object], seed: int) -> Iterator[list[int | None]]:
    """Yield the order of each round of the dense model (None) and these methods."""
    return balanced_orders((None, *methods), f"{seed} {len(methods)}")


def measure_round(
    workload: Workload,
    methods: Mapping[int, Method],
    clock: Clock,
    turns: Sequence[int | None],
    gpu: Gpu | None = None,
) -> dict[int, Pair]:
    """Run the dense model and each method once. Returns a pair for each method. All pairs share the dense run.

    turns: the order: indices of methods, and None for the dense model.
    """
    times: dict[int | None, Times] = {}
    disturbed: dict[int | None, Disturbance] = {}
    clock_before = gpu.clock_mhz() if gpu else None
    before = disturbance.read()
    for which in turns:
        with nullcontext() if which is None else prune(workload.model, methods[which]):
            times[which] = run(workload, clock)
        after = disturbance.read()
        disturbed[which], before = disturbance.change(before, after), after
    clock_after = gpu.clock_mhz() if gpu else None
    slowest = None if clock_before is None or clock_after is None else min(clock_before, clock_after)
    return {
        which: _pair(
            times[None],
            times[which],
            dense_first=turns.index(None) < turns.index(which),
            clock_mhz=slowest,
            disturbed=disturbance.together(disturbed[None], disturbed[which]),
        )
        for which in methods
    }


def _pair(dense: Times, pruned: Times, *, dense_first: bool, clock_mhz: int | None, disturbed: Disturbance) -> Pair:
    """Return the record of a dense run and a pruned run."""
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
        dense_vision_ms=dense.parts.get("vision"),
        vision_ms=pruned.parts.get("vision"),
        dense_projector_ms=dense.parts.get("projector"),
        projector_ms=pruned.parts.get("projector"),
        selection_ms=pruned.parts.get("selection"),
        dense_cpu_ms=dense.cpu_ms,
        cpu_ms=pruned.cpu_ms,
        clock_mhz=clock_mhz,
        disturbance=disturbed,
    )


def _warm_up(
    workload: Workload, methods: Sequence[Method], clock: Clock, seconds: float, settled_ms: float | None
) -> int:
    """Run rounds until two in a row agree, or until they take as long as the cells may. Returns how many ran.

    One round is enough if its dense prefill agrees with `settled_ms`.
    """
    everything = dict(enumerate(methods))
    orders = _orders(everything, 0)
    before, spent_ms, count = measure_round(workload, everything, clock, next(orders)), 0.0, 1
    if settled_ms is not None and _agree(before[0].dense_prefill_ms, settled_ms):
        return count
    while count < MOST_WARMUPS:
        now, count = measure_round(workload, everything, clock, next(orders)), count + 1
        spent_ms += now[0].dense_total_ms + sum(pair.total_ms for pair in now.values())
        dense = _agree(now[0].dense_prefill_ms, before[0].dense_prefill_ms)
        pruned = all(_agree(pair.prefill_ms, before[which].prefill_ms) for which, pair in now.items())
        if (dense and pruned) or spent_ms >= 1000 * seconds:
            break
        before = now
    return count


def _agree(now_ms: float, before_ms: float) -> bool:
    return abs(now_ms / before_ms - 1) < SETTLED


def _slowed(pairs: Mapping[int, Pair], gpu: Gpu | None, reasons: Sequence[str]) -> bool:
    """Whether the GPU was slow and gave a reason. Without a reason it may have been idle between rounds."""
    clocks = [pair.clock_mhz for pair in pairs.values() if pair.clock_mhz is not None]
    return gpu is not None and bool(reasons and clocks) and clocks[0] < LEAST_CLOCK * gpu.full_clock_mhz()


def _gpu(workload: Workload) -> Gpu | None:
    try:
        return gpu_for(workload.device)
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
