"""Times as paired samples: dense and pruned in turn, in random order, in one process.

prefill_ms: from the first module that runs (in the vision tower) to the end of the model's first forward, the selection
    of tokens included.
total_ms: the whole of `generate` for a fixed number of new tokens.
ttft_ms: from the call of `generate` to the end of the first forward.
vision_ms, projector_ms, selection_ms: parts of the prefill.

All times come from the same run.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel

from trio_core.methods.method import Method
from trio_core.models.adapter import Adapter
from trio_core.pruning import prune
from trio_core.spans import listening
from trio_profile.inputs.towers import beside_the_decoder, is_projector
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.clock import Clock, HostClock, clock_for
from trio_profile.profilers.gpu import Gpu, NotAvailable, gpu_for
from trio_profile.records.schema import Pair, Stopped
from trio_profile.stats.stopping import decide

MOST_WARMUPS = 6
SETTLED = 0.15
"""Warm-up ends when all prefills of two rounds in a row differ by less than this share."""
LEAST_CLOCK = 0.75
"""A round below this share of the full SM clock is discarded. [nvbench's throttling rule]."""
MOST_DISCARDED = 50


@dataclass(frozen=True)
class Latency:
    """The measured pairs of one cell.

    pairs: in the order in which they were measured.
    warmups: rounds before the first pair.
    stopped: why sampling ended.
    discarded: rounds that were discarded because the GPU was slow.
    slowed_by: the reasons that the GPU gave for a lower clock.
    strangers: number of other processes on the GPU.
    """

    pairs: tuple[Pair, ...]
    warmups: int
    stopped: Stopped
    discarded: int = 0
    slowed_by: tuple[str, ...] = ()
    strangers: int = 0


@dataclass(frozen=True)
class Times:
    """The times of one generation.

    host_ms: its prefill by the host's clock; None if the clock is the host's.
    parts: milliseconds of the prefill's parts that ran: `vision`, `projector`, `selection`.
    """

    prefill_ms: float
    ttft_ms: float
    total_ms: float
    host_ms: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


def measure(
    workload: Workload,
    methods: Sequence[Method],
    *,
    precision: float,
    seconds: float,
    seed: int,
    clock: Clock | None = None,
    gpu: Gpu | None = None,
    sleep: Callable[[float], None] = time.sleep,
    report: Callable[[dict[int, tuple[int, float]]], None] | None = None,
) -> Iterator[tuple[int, Latency]]:
    """Measure rounds, and yield (index of the method, its pairs) as soon as a method has enough pairs.

    A round runs the dense model and every remaining method once, in random order. A method has enough pairs when the
    interval of its prefill speed-up is narrow enough, or when its time is spent. Rounds with a GPU clock below three
    quarters are discarded if the GPU gives a reason. After two such rounds in a row the GPU gets time to cool.

    precision: half width of the median's 95 % interval, divided by the median.
    seconds: measured time of each method without warm-up. The dense runs are divided among the methods.
    seed: of the order.
    clock, gpu, sleep: a test may replace them.
    report: called after each round, by method with the number of its pairs and its measured seconds.
    """
    clock, gpu = clock or clock_for(workload.device), gpu or _gpu(workload)
    order = random.Random(seed)
    sampled: dict[int, list[Pair]] = {which: [] for which in range(len(methods))}
    spent_ms = dict.fromkeys(sampled, 0.0)
    discarded = in_a_row = 0
    reasons, strangers = set[str](), set[int]()
    with _quiet():
        warmups = _warm_up(workload, methods, clock, seconds)
        while sampled:
            pairs = _round(workload, {which: methods[which] for which in sampled}, clock, order, gpu)
            for which, pair in pairs.items():
                spent_ms[which] += pair.dense_total_ms / len(pairs) + pair.total_ms
            slowed_by = gpu.slowed_by() if gpu is not None else ()
            reasons.update(slowed_by)
            if gpu is not None:
                strangers.update(gpu.others())
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
                ratios = [p.dense_prefill_ms / p.prefill_ms for p in sampled[which]]
                if stopped := decide(ratios, spent_ms[which] / 1000, precision=precision, seconds=seconds):
                    found = tuple(sampled.pop(which))
                    yield which, Latency(found, warmups, stopped, discarded, tuple(sorted(reasons)), len(strangers))


def distinct_ratios(workload: Workload, *, seed: int, clock: Clock | None = None, pairs: int = 6) -> tuple[float, ...]:
    """Dense prefill times of new pictures divided by those of the workload's own picture, measured in turn.

    This is MLPerf's TEST04: if something caches the result of a picture, repeating the picture is faster.
    """
    clock = clock or clock_for(workload.device)
    order, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    with _quiet():
        run(workload, clock)
        for _ in range(pairs):
            both = [(True, workload.redrawn(generator)), (False, workload)]
            order.shuffle(both)
            times = {is_fresh: run(one, clock).prefill_ms for is_fresh, one in both}
            ratios.append(times[True] / times[False])
    return tuple(ratios)


def run(workload: Workload, clock: Clock) -> Times:
    """The times of one generation."""
    return timed(workload.model, workload.adapter, workload.generate, clock)


def timed(model: PreTrainedModel, adapter: Adapter, generate: Callable[[], Any], clock: Clock) -> Times:
    """The times of one call of `generate`.

    generate: any function that generates with the model.
    """
    prepared: list[Any] = []
    marks: list[Any] = []
    host = None if isinstance(clock, HostClock) else HostClock()
    host_marks: list[int] = []

    def mark() -> None:
        marks.append(clock.mark())
        if host is not None:
            host_marks.append(host.mark())

    def first_module(*_: Any) -> None:
        # `generate` itself waits for the device before it gets here, so the clock is prepared here.
        prepared.append(clock.mark())
        clock.prepare()
        mark()
        before.remove()

    def first_forward(*_: Any) -> None:
        mark()
        after.remove()

    # The start is at the first module of any kind: `generate` may encode the pictures before it calls the model.
    # Both marks are outside all other hooks, so that pruning is inside the timed part.
    before = register_module_forward_pre_hook(first_module)
    after = model.register_forward_hook(first_forward)
    try:
        with _parts(adapter, clock) as parts:
            start = clock.mark()
            generate()
            end = clock.mark()
    finally:
        before.remove()
        after.remove()
    preparing_ms = clock.elapsed_ms(prepared[0], marks[0])
    return Times(
        prefill_ms=clock.elapsed_ms(*marks),
        ttft_ms=clock.elapsed_ms(start, marks[1]) - preparing_ms,
        total_ms=clock.elapsed_ms(start, end) - preparing_ms,
        host_ms=None if host is None else host.elapsed_ms(*host_marks),
        parts=parts.milliseconds(),
    )


class _Parts:
    """Marks parts of the prefill. Modules that a selection calls belong to the selection."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.selecting = False
        self.open: dict[str, Any] = {}
        self.closed: list[tuple[str, Any, Any]] = []

    def enter(self, name: str, *_: Any) -> None:
        if not self.selecting:
            self.open[name] = self.clock.mark()

    def leave(self, name: str, *_: Any) -> None:
        if not self.selecting:
            self.closed.append((name, self.open.pop(name), self.clock.mark()))

    def span(self, name: str, entering: bool) -> None:
        if name != "selection":
            return
        if entering:
            self.enter(name)
        self.selecting = entering
        if not entering:
            self.leave(name)

    def milliseconds(self) -> dict[str, float]:
        """Milliseconds by part, summed over several runs of one part."""
        spent: dict[str, float] = {}
        for name, start, end in self.closed:
            spent[name] = spent.get(name, 0.0) + self.clock.elapsed_ms(start, end)
        return spent


@contextmanager
def _parts(adapter: Adapter, clock: Clock) -> Iterator[_Parts]:
    parts, handles = _Parts(clock), list[Any]()
    try:
        for path, module in beside_the_decoder(adapter):
            name = "projector" if is_projector(path) else "vision"
            handles.append(module.register_forward_pre_hook(partial(parts.enter, name)))
            handles.append(module.register_forward_hook(partial(parts.leave, name)))
        with listening(parts.span):
            yield parts
    finally:
        for handle in handles:
            handle.remove()


def _round(
    workload: Workload,
    methods: Mapping[int, Method],
    clock: Clock,
    order: random.Random,
    gpu: Gpu | None = None,
) -> dict[int, Pair]:
    """Run the dense model and each method once, in random order. Returns a pair for each method.

    All pairs share the dense run.
    """
    turns: list[int | None] = [None, *methods]
    order.shuffle(turns)
    times: dict[int | None, Times] = {}
    clock_before = gpu.clock_mhz() if gpu else None
    for which in turns:
        with nullcontext() if which is None else prune(workload.model, methods[which]):
            times[which] = run(workload, clock)
    clock_after = gpu.clock_mhz() if gpu else None
    slowest = None if clock_before is None or clock_after is None else min(clock_before, clock_after)
    dense = times[None]
    return {
        which: Pair(
            dense_first=turns.index(None) < turns.index(which),
            dense_prefill_ms=dense.prefill_ms,
            dense_total_ms=dense.total_ms,
            prefill_ms=times[which].prefill_ms,
            total_ms=times[which].total_ms,
            dense_ttft_ms=dense.ttft_ms,
            ttft_ms=times[which].ttft_ms,
            dense_host_ms=dense.host_ms,
            host_ms=times[which].host_ms,
            dense_vision_ms=dense.parts.get("vision"),
            vision_ms=times[which].parts.get("vision"),
            dense_projector_ms=dense.parts.get("projector"),
            projector_ms=times[which].parts.get("projector"),
            selection_ms=times[which].parts.get("selection"),
            clock_mhz=slowest,
        )
        for which in methods
    }


def _warm_up(workload: Workload, methods: Sequence[Method], clock: Clock, seconds: float) -> int:
    """Run rounds until two in a row agree, or until they take as long as the cells may. Returns how many ran."""
    everything, order = dict(enumerate(methods)), random.Random(0)
    before, spent_ms, count = _round(workload, everything, clock, order), 0.0, 1
    while count < MOST_WARMUPS:
        now, count = _round(workload, everything, clock, order), count + 1
        spent_ms += now[0].dense_total_ms + sum(pair.total_ms for pair in now.values())
        changes = [now[0].dense_prefill_ms / before[0].dense_prefill_ms]
        changes += [pair.prefill_ms / before[which].prefill_ms for which, pair in now.items()]
        if all(abs(change - 1) < SETTLED for change in changes) or spent_ms >= 1000 * seconds * len(methods):
            break
        before = now
    return count


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
def _quiet() -> Iterator[None]:
    """Switch garbage collection off while samples are taken."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
