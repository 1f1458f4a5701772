"""The kind `layers`: the time of every decoder layer and every stage of one prefill, dense and pruned, and a trace."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from trio_profile.analysis.layers import LayersDocument, PartTimes
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import flops_counted, latency, roofline, timeline
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.estimate import Milliseconds
from trio_profile.records.files import TRACE
from trio_profile.records.schema import Stopped, Study
from trio_profile.records.writing import write_whole
from trio_profile.stats.estimates import median_of
from trio_profile.stats.orders import balanced_orders
from trio_profile.stats.stopping import decide
from trio_profile.studies.layer_times import LayerMeasurements, Round, chrome_trace, document
from trio_profile.studies.plan import PlannedCell, resolve

WARMUPS = 2
FOUR = tuple(product((True, False), (True, False)))
"""The prefills of a round: whether it is dense, and whether it has marks."""


def run(
    study: Study, directory: Path | None = None, watch: Watch = ignore, *, clock: Clock | None = None
) -> LayersDocument:
    """Time the study's cell and the dense model.

    directory: `trace.json` is written here. Perfetto and Chrome open it.
    watch: called with each step.
    clock: clock of the device; None for the default clock.
    Raises StudyError if the model or the input cannot be used. Raises OptionError if no schedule reaches the retention.
    Raises StoreError if the trace cannot be written.
    """
    watch(Step(f"loading {study.model}"))
    plan = resolve(study)
    session = open_session(study.device, inputs=input_digests(study))
    workload, cell = plan.workload, plan.cells[0]
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    watch(Step("counting"))
    # Counts come first: the CPU's allocator is a quarter slower until it has freed some large blocks.
    dense_work, _ = flops_counted.prefill(workload, None)
    work, trace = flops_counted.prefill(workload, cell.method)
    assert trace is not None
    rounds, stopped = _rounds(workload, cell, study, clock, watch)
    watch(Step("timing whole generations", study.cell_seconds, 1.25 * study.cell_seconds))
    decode = _decode(workload, cell, study, clock)
    watch(Step("measuring the device's peaks", 1.25 * study.cell_seconds, 1.25 * study.cell_seconds))
    peaks = roofline.measure(workload.device, workload.model.dtype, clock=clock)
    times = LayerMeasurements(workload, cell, trace, rounds, stopped, decode, peaks, 2 * work.macs, 2 * dense_work.macs)
    found = document(study, session, times)
    if directory is None:
        return found
    path = directory / TRACE
    write_whole(path, json.dumps(chrome_trace(rounds)))
    return found.model_copy(update={"trace": str(path)})


def _rounds(
    workload: Workload, cell: PlannedCell, study: Study, clock: Clock, watch: Watch
) -> tuple[list[Round], Stopped]:
    """Measure rounds until sampling stops. Return them with the reason."""
    orders, rounds, spent_ms = balanced_orders(FOUR, study.seed), list[Round](), 0.0
    for _ in range(WARMUPS):
        _round(workload, cell, clock, next(orders))
    while True:
        latest = _round(workload, cell, clock, next(orders))
        rounds.append(latest)
        spent_ms += latest.dense.whole_ms + latest.pruned.whole_ms + latest.dense_bare_ms + latest.pruned_bare_ms
        text = f"round {len(rounds)}: dense and pruned, with and without marks"
        watch(Step(text, min(spent_ms / 1000, study.cell_seconds), 1.25 * study.cell_seconds))
        ratios = [r.dense_bare_ms / r.pruned_bare_ms for r in rounds]
        if stopped := decide(ratios, spent_ms / 1000, precision=study.precision, seconds=study.cell_seconds):
            return rounds, stopped


def _round(workload: Workload, cell: PlannedCell, clock: Clock, order: Sequence[tuple[bool, bool]]) -> Round:
    """Measure the four prefills of one round. order: those of FOUR."""
    found: dict[tuple[bool, bool], Any] = {}
    for dense, marked in order:
        method = None if dense else cell.method
        found[dense, marked] = (
            timeline.measure(workload, method, clock)[0] if marked else timeline.bare(workload, method, clock)
        )
    return Round(found[True, True], found[False, True], found[True, False], found[False, False])


def _decode(workload: Workload, cell: PlannedCell, study: Study, clock: Clock) -> PartTimes:
    """Return the time after the first token in whole generations, dense and pruned in turn."""
    [(_, found)] = latency.measure(
        workload,
        [cell.method],
        precision=study.precision,
        seconds=[study.cell_seconds / 4],
        seed=study.seed,
        clock=clock,
    )

    def after_first_token(side: str) -> Milliseconds:
        times = [getattr(pair, f"{side}total_ms") - getattr(pair, f"{side}ttft_ms") for pair in found.pairs]
        return median_of(Milliseconds, [times], found.stopped)

    return PartTimes(
        name=f"decode of {study.new_tokens - 1} tokens",
        ms=after_first_token(""),
        dense_ms=after_first_token("dense_"),
    )
