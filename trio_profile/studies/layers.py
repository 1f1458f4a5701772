"""The kind `layers`: the time of every decoder layer and every stage of one prefill, dense and pruned, and a trace."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from trio_core.methods.method import Method
from trio_core.trace import Trace
from trio_profile import units
from trio_profile.analysis.layers import LayersDocument, PrefillTimes
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import flops_counted, kv_cache, latency, roofline, timeline
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.files import TRACE
from trio_profile.records.schema import Stopped, Study
from trio_profile.records.writing import write_whole
from trio_profile.stats.orders import balanced_orders
from trio_profile.stats.stopping import decide
from trio_profile.studies.chrome_trace import chrome_trace
from trio_profile.studies.layer_times import LayerMeasurements, Round, Work, document, times_of
from trio_profile.studies.plan import PlannedCell, resolve

WARMUPS = 2
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
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    watch(Step("counting"))
    # Counts come first: the CPU's allocator is a quarter slower until it has freed some large blocks.
    dense_work, _ = _work(workload, None)
    counted = [_work(workload, cell.method) for cell in cells]
    timed = _rounds(workload, cells, study, clock, watch)
    all_s, whole_s = len(cells) * study.cell_seconds, 1.25 * len(cells) * study.cell_seconds
    watch(Step("timing whole generations", all_s, whole_s))
    generations = _generations(workload, cells, study, clock)
    watch(Step("measuring the device's peaks", whole_s, whole_s))
    peaks = roofline.measure(workload.device, workload.model.dtype, clock=clock)
    found: list[PrefillTimes] = []
    for number, (cell, (work, trace)) in enumerate(zip(cells, counted, strict=True)):
        assert trace is not None
        rounds, stopped = timed[number]
        measured = (trace, rounds, stopped, generations[number], peaks, work, dense_work)
        found.append(times_of(LayerMeasurements(workload, cell, *measured), study))
    made = document(study, session, found, workload.shape)
    if directory is None:
        return made
    path = directory / TRACE
    names = [_process(cell, several=len(cells) > 1) for cell in cells]
    write_whole(path, json.dumps(chrome_trace({name: timed[number][0] for number, name in enumerate(names)})))
    return made.model_copy(update={"trace": str(path)})


def _process(cell: PlannedCell, *, several: bool) -> str:
    """Return the name of a cell's process in the trace."""
    return f"pruned to {units.percent(cell.cell.retention)}" if several else "pruned"


def _work(workload: Workload, method: Method | None) -> tuple[Work, Trace | None]:
    """Return the exact quantities of one prefill, and pruning's trace. method: None for the dense model."""
    counted, trace = flops_counted.prefill(workload, method)
    return Work(counted.macs, counted.selection_macs, sum(kv_cache.measure(workload, method))), trace


def _rounds(
    workload: Workload, cells: Sequence[PlannedCell], study: Study, clock: Clock, watch: Watch
) -> list[tuple[list[Round], Stopped]]:
    """Measure rounds until sampling of every cell stops. Return the rounds of each cell, and the reason to stop.

    A round has the dense model and every remaining cell. A cell whose sampling stops leaves the rounds.
    """
    rounds: list[list[Round]] = [[] for _ in cells]
    spent_s, stopped = [0.0 for _ in cells], dict[int, Stopped]()
    seconds, whole_s = study.cell_seconds, 1.25 * len(cells) * study.cell_seconds
    remaining = tuple(range(len(cells)))
    orders = _orders(remaining, study.seed)
    for _ in range(WARMUPS):
        _round(workload, cells, clock, next(orders))
    while remaining:
        latest = _round(workload, cells, clock, next(orders))
        for number, one in latest.items():
            rounds[number].append(one)
            dense_ms = (one.dense.whole_ms + one.dense_bare_ms) / len(remaining)
            spent_s[number] += (one.pruned.whole_ms + one.pruned_bare_ms + dense_ms) / 1000
            ratios = [r.dense_bare_ms / r.pruned_bare_ms for r in rounds[number]]
            if why := decide(ratios, spent_s[number], precision=study.precision, seconds=seconds):
                stopped[number] = why
        done_s = sum(seconds if n in stopped else min(spent, seconds) for n, spent in enumerate(spent_s))
        text = f"round {max(map(len, rounds))}: dense and pruned, with and without marks"
        watch(Step(text, done_s, whole_s))
        if still := tuple(number for number in remaining if number not in stopped):
            orders = orders if still == remaining else _orders(still, study.seed)
        remaining = still
    return [(found, stopped[number]) for number, found in enumerate(rounds)]


def _orders(remaining: Sequence[int], seed: int) -> Iterator[list[Member]]:
    """Yield the order of each round: the dense model and the remaining cells, with and without marks."""
    return balanced_orders(tuple(product((None, *remaining), (True, False))), f"{seed} {len(remaining)}")


def _round(workload: Workload, cells: Sequence[PlannedCell], clock: Clock, order: Sequence[Member]) -> dict[int, Round]:
    """Measure the prefills of one round, by the number of the cell. All cells share the dense prefills."""
    found: dict[Member, Any] = {}
    for which, marked in order:
        method = None if which is None else cells[which].method
        found[which, marked] = (
            timeline.measure(workload, method, clock)[0] if marked else timeline.bare(workload, method, clock)
        )
    return {
        which: Round(found[None, True], found[which, True], found[None, False], found[which, False])
        for which in {which for which, _ in order if which is not None}
    }


def _generations(
    workload: Workload, cells: Sequence[PlannedCell], study: Study, clock: Clock
) -> dict[int, latency.Latency]:
    """Return the times of whole generations of each cell, dense and pruned in turn, by the number of the cell."""
    return dict(
        latency.measure(
            workload,
            [cell.method for cell in cells],
            precision=study.precision,
            seconds=[study.cell_seconds / 4 for _ in cells],
            seed=study.seed,
            clock=clock,
        )
    )
