"""The kind `layers`: the time of every decoder layer and every stage of one prefill, dense and pruned, and a trace."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice, product
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
from trio_profile.records.schema import Pair, Study
from trio_profile.records.writing import write_whole
from trio_profile.stats.orders import balanced_orders
from trio_profile.stats.stopping import LEAST_SAMPLES
from trio_profile.studies.chrome_trace import chrome_trace
from trio_profile.studies.layer_samples import Round, Samples
from trio_profile.studies.layer_times import LayerMeasurements, Work, document, times_of
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
    with latency.quiet():
        sampled = _sample(workload, cells, study, clock, watch)
    whole_s = 1.25 * len(cells) * study.cell_seconds
    watch(Step("measuring the device's peaks", whole_s, whole_s))
    peaks = roofline.measure(workload.device, workload.model.dtype, clock=clock)
    found: list[PrefillTimes] = []
    for number, (cell, (work, trace)) in enumerate(zip(cells, counted, strict=True)):
        assert trace is not None
        measured = LayerMeasurements(workload, cell, trace, sampled[number], peaks, work, dense_work)
        found.append(times_of(measured, study))
    made = document(study, session, found, workload.shape)
    if directory is None:
        return made
    path = directory / TRACE
    names = _processes([cell.cell.retention for cell in cells])
    write_whole(path, json.dumps(chrome_trace({name: one.rounds for name, one in zip(names, sampled, strict=True)})))
    return made.model_copy(update={"trace": str(path)})


def _processes(retentions: Sequence[float]) -> list[str]:
    """Return the name of each cell's process in the trace. Close retentions get enough digits to differ."""
    if len(retentions) == 1:
        return ["pruned"]
    written = ([units.percent(retention, digits) for retention in retentions] for digits in range(1, 18))
    return [f"pruned to {text}" for text in next(texts for texts in written if len({*texts}) == len(texts))]


def _work(workload: Workload, method: Method | None) -> tuple[Work, Trace | None]:
    """Return the exact quantities of one prefill, and pruning's trace. method: None for the dense model."""
    counted, _ = flops_counted.prefill(workload, method)
    held, trace = kv_cache.measure(workload, method)
    return Work(counted.macs, counted.selection_macs, sum(held)), trace


def _sample(
    workload: Workload, cells: Sequence[PlannedCell], study: Study, clock: Clock, watch: Watch
) -> list[Samples]:
    """Measure rounds until sampling of every cell stops. Return the samples of each cell.

    A round has the dense model and every remaining cell. A cell whose sampling stops leaves the rounds. Rounds of whole
    generations take place between the rounds of prefills, and take a quarter of their time: both see the same machine.
    """
    found = [Samples() for _ in cells]
    whole_s = 1.25 * len(cells) * study.cell_seconds
    remaining = tuple(range(len(cells)))
    orders, turns = _orders(remaining, study.seed), balanced_orders((None, *remaining), study.seed)
    for _ in range(WARMUPS):
        _round(workload, cells, clock, next(orders))
        _generate(workload, cells, clock, next(turns))
    while remaining:
        for number, one in _round(workload, cells, clock, next(orders)).items():
            found[number].add_round(one, len(remaining))
            found[number].decide(study.precision, study.cell_seconds)
        if sum(one.generating_s for one in found) <= sum(one.spent_s for one in found) / 4:
            for number, pair in _generate(workload, cells, clock, next(turns)).items():
                found[number].add_pair(pair, len(remaining))
        done_s = sum(study.cell_seconds if one.stopped else min(one.spent_s, study.cell_seconds) for one in found)
        text = f"round {max(len(one.rounds) for one in found)}: dense and pruned, with and without marks"
        watch(Step(text, 1.25 * done_s, whole_s))
        still = tuple(number for number in remaining if found[number].stopped is None)
        if still and still != remaining:
            orders, turns = _orders(still, study.seed), balanced_orders((None, *still), study.seed)
        remaining = still
    while few := tuple(number for number, one in enumerate(found) if len(one.pairs) < LEAST_SAMPLES):
        for order in islice(balanced_orders((None, *few), study.seed), LEAST_SAMPLES):
            for number, pair in _generate(workload, cells, clock, order).items():
                found[number].add_pair(pair, len(few))
    return found


def _generate(
    workload: Workload, cells: Sequence[PlannedCell], clock: Clock, turns: Sequence[int | None]
) -> dict[int, Pair]:
    """Measure whole generations. Return a pair for each cell. turns: numbers of cells, and None for the dense model."""
    methods = {number: cells[number].method for number in turns if number is not None}
    return latency.measure_round(workload, methods, clock, turns)


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
