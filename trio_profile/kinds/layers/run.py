"""The kind `layers`: the time of every decoder layer and every stage of one prefill, dense and pruned, and a trace."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from trio_core.methods.method import Method
from trio_core.trace import Trace
from trio_profile.engine.plan import PlannedCell, resolve
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.workload import Workload
from trio_profile.kinds.layers.document import LayersDocument, PrefillTimes
from trio_profile.kinds.layers.times import LayerMeasurements, Round, Samples, Work, times_of
from trio_profile.profilers import flops_counted, memory, rounds, timeline
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.files import TRACE
from trio_profile.records.schema import Study
from trio_profile.records.timing import pairs_of
from trio_profile.records.writing import write_whole

WARMUPS = 2
LEAST_ROUNDS = 6
"""With fewer rounds, nothing says how far the next one may differ."""
FIRST_LOOK = 24
"""After so many rounds, and after each doubling, the intervals may end the sampling. Many looks would find one too
narrow by chance."""
GENERATION_EVERY = 4
Member = tuple[int | None, bool]
"""A prefill of a round: the number of its cell (None: dense), and whether it has marks."""


def run(
    study: Study, directory: Path | None = None, watch: Watch = ignore, *, clock: Clock | None = None
) -> LayersDocument:
    """Time the study's cells and the dense model.

    directory: `trace.json` is written here, with a process for each retention. Perfetto and Chrome open it.
    watch: called with each step.
    clock: clock of the device; None for the default clock.
    Raises StudyError if the model or the input cannot be used. Raises OptionError if no schedule reaches a retention.
    Raises StoreError if the trace cannot be written.
    """
    watch(Step(f"loading {study.model}"))
    plan = resolve(study)
    session = open_session(study.device, inputs=input_digests(study))
    workload, cells = plan.workload, plan.cells
    clock = clock or clock_for(workload.device)
    watch(Step("counting"))
    # Counts come first: the CPU's allocator is a quarter slower until it has freed some large blocks.
    dense_work, _ = _work(workload, None)
    counted = [_work(workload, cell.method) for cell in cells]
    with rounds.quiet():
        sampled = _sample(workload, cells, study, clock, watch)
    times: list[PrefillTimes] = []
    for number, (cell, (work, trace)) in enumerate(zip(cells, counted, strict=True)):
        assert trace is not None
        measured = LayerMeasurements(workload, cell, trace, sampled[number], work, dense_work)
        times.append(times_of(measured, study))
    document = LayersDocument(
        sessions=(session,), environment=session.environment, study=study, **dict(times[0]), cells=tuple(times)
    )
    if directory is None:
        return document
    path = directory / TRACE
    names = [f"pruned to {100 * cell.cell.retention:.10g} %" for cell in cells]
    write_whole(path, json.dumps(_trace_events(dict(zip(names, sampled, strict=True)))))
    return document.model_copy(update={"trace": str(path)})


def _trace_events(cells: Mapping[str, Samples]) -> dict[str, Any]:
    """Return the round of median length of each cell as trace events. Perfetto and chrome://tracing open them.

    cells: by the name of the process. The dense prefill is that of the first cell.
    """
    middle = {name: cell.middle() for name, cell in cells.items()}
    timelines = {"dense": next(iter(middle.values())).dense, **{name: r.pruned for name, r in middle.items()}}
    events: list[dict[str, Any]] = []
    for process, (name, prefill) in enumerate(timelines.items(), start=1):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
        events += [
            {
                "name": region.name,
                "cat": region.kind,
                "ph": "X",
                "pid": process,
                "tid": 1,
                "ts": 1000 * region.start_ms,
                "dur": 1000 * region.duration_ms,
                "args": {} if region.layer is None else {"layer": region.layer},
            }
            for region in prefill.regions
        ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _work(workload: Workload, method: Method | None) -> tuple[Work, Trace | None]:
    """Return the exact quantities of one prefill, and pruning's trace. method: None for the dense model."""
    counted, _ = flops_counted.prefill(workload, method)
    held, trace = memory.cache_bytes(workload, method)
    return Work(counted.macs, counted.selection_macs, sum(held)), trace


def _sample(
    workload: Workload, cells: Sequence[PlannedCell], study: Study, clock: Clock, watch: Watch
) -> list[Samples]:
    """Measure rounds until all speed-ups are known well enough, or until the time is spent. Return each cell's samples.

    A round has the dense model and every cell, with and without marks, in a random order. Rounds of whole generations
    take place between the rounds of prefills: both see the same machine.
    """
    samples, draw = [Samples() for _ in cells], random.Random(study.seed)
    names = {str(number): cell.method for number, cell in enumerate(cells)}
    members = list(product((None, *range(len(cells))), (True, False)))
    for _ in range(WARMUPS):
        _round(workload, cells, clock, draw.sample(members, len(members)))
        rounds.measure(workload, names, "warm-up", draw, clock)
    begin, look = time.monotonic(), FIRST_LOOK
    while True:
        for number, measured in _round(workload, cells, clock, draw.sample(members, len(members))).items():
            samples[number].rounds.append(measured)
        count = len(samples[0].rounds)
        if count % GENERATION_EVERY == 1 or len(samples[0].pairs) < LEAST_ROUNDS <= count:
            generated = rounds.measure(workload, names, "generation", draw, clock)
            [pairs] = pairs_of([[generated]])
            for name in names:
                samples[int(name)].pairs += pairs[name]
        spent = time.monotonic() - begin
        watch(
            Step(f"round {count}: dense and pruned, with and without marks", min(spent, study.seconds), study.seconds)
        )
        if count == look:
            look *= 2
            if max(cell.half_width() for cell in samples) <= study.precision and len(samples[0].pairs) >= LEAST_ROUNDS:
                for cell in samples:
                    cell.stopped = "converged"
                return samples
        if spent >= study.seconds and len(samples[0].pairs) >= LEAST_ROUNDS:
            return samples


def _round(workload: Workload, cells: Sequence[PlannedCell], clock: Clock, order: Sequence[Member]) -> dict[int, Round]:
    """Measure the prefills of one round, by the number of the cell. All cells share the dense prefills."""
    runs: dict[Member, Any] = {}
    for number, marked in order:
        method = None if number is None else cells[number].method
        runs[number, marked] = (
            timeline.measure(workload, method, clock)[0] if marked else timeline.bare(workload, method, clock)
        )
    return {
        number: Round(runs[None, True], runs[number, True], runs[None, False], runs[number, False])
        for number in range(len(cells))
    }
