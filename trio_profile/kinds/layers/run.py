"""The kind `layers`: the time of every decoder layer and every stage of one prefill, dense and pruned, and a trace.

A prefill with marks also records the start and the end of each region. A bare prefill has no marks inside.
"""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, product
from pathlib import Path
from statistics import fmean
from typing import Any

from trio_core.methods.method import Method
from trio_core.trace import Trace
from trio_profile import units
from trio_profile.cost import formula
from trio_profile.cost.aiconfigurator import tables
from trio_profile.cost.prediction import Prediction, span
from trio_profile.engine import factors
from trio_profile.engine.plan import PlannedCell, resolve
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.workload import Workload
from trio_profile.judge.attribution import Part, attribute
from trio_profile.kinds.layers.document import (
    STAGE_PARTS,
    Efficiency,
    LayersDocument,
    LayerTimes,
    PartTimes,
    PrefillTimes,
    StageTimes,
    Totals,
)
from trio_profile.profilers import flops_counted, memory, rounds, timeline
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.timeline import Timeline
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.records.files import TRACE
from trio_profile.records.schema import Pair, Stopped, Study
from trio_profile.records.timing import pairs_of
from trio_profile.records.writing import write_whole
from trio_profile.stats.estimates import median_of
from trio_profile.stats.two_way import centre_of

WARMUPS = 2
LEAST_ROUNDS = 6
"""With fewer rounds, nothing says how far the next one may differ."""
FIRST_LOOK = 24
"""After so many rounds, and after each doubling, the intervals may end the sampling. Many looks would find one too
narrow by chance."""
GENERATION_EVERY = 4
Member = tuple[int | None, bool]
"""A prefill of a round: the number of its cell (None: dense), and whether it has marks."""
Key = tuple[str, str, int | None]
"""The kind, the name and the layer of a region."""
Durations = dict[Key, list[float]]
"""Milliseconds of each region, one for each round."""


@dataclass(frozen=True)
class Round:
    """Four prefills of one round.

    dense, pruned: the prefills with marks.
    dense_bare_ms, pruned_bare_ms: milliseconds of the bare prefills.
    """

    dense: Timeline
    pruned: Timeline
    dense_bare_ms: float
    pruned_bare_ms: float


@dataclass
class Samples:
    """The samples of one cell so far.

    rounds: its prefills.
    pairs: its whole generations.
    stopped: why sampling ended.
    """

    rounds: list[Round] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    stopped: Stopped = "budget"

    def middle(self) -> Round:
        """Return the round of median length."""
        return sorted(self.rounds, key=lambda r: r.pruned.whole_ms)[len(self.rounds) // 2]

    def half_width(self) -> float:
        """Return the relative half width of the prefill's speed-up."""
        return centre_of([[r.dense_bare_ms / r.pruned_bare_ms for r in self.rounds]]).half_width()


@dataclass(frozen=True)
class Work:
    """The exact quantities of one prefill.

    macs: the counted work, the selections included.
    selection_macs: the part of the selections.
    kv_bytes: size of the KV cache after it.
    """

    macs: int
    selection_macs: int
    kv_bytes: int


@dataclass(frozen=True)
class LayerMeasurements:
    """All measurements of one cell.

    workload: the model and its input.
    cell: the cell that was measured.
    trace: the pruning that really ran.
    samples: its prefills and generations.
    work, dense_work: the exact quantities of the pruned and the dense prefill.
    """

    workload: Workload
    cell: PlannedCell
    trace: Trace
    samples: Samples
    work: Work
    dense_work: Work

    @cached_property
    def dense(self) -> Durations:
        """Milliseconds of the regions of the dense prefills with marks."""
        return _durations([r.dense for r in self.samples.rounds])

    @cached_property
    def pruned(self) -> Durations:
        """Milliseconds of the regions of the pruned prefills with marks."""
        return _durations([r.pruned for r in self.samples.rounds])

    def milliseconds(self, values: Sequence[float]) -> Milliseconds:
        """Return the median of a duration. values: milliseconds, one for each round or pair."""
        return median_of(Milliseconds, [values], self.samples.stopped)


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
    engines = [Prediction(table, workload.shape) for table in tables(study.gpu)] if study.gpu else []
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
        times.append(times_of(measured, study, engines))
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
        rounds.measure(workload, names, "generation", draw, clock)
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


# --- the document -----------------------------------------------------------------------------------------------------


def times_of(measured: LayerMeasurements, study: Study, engines: Sequence[Prediction] = ()) -> PrefillTimes:
    """Return the times of one cell. engines: whose operators are predicted beside them."""
    shape, cell = measured.workload.shape, measured.cell
    layers, stages, parts = _layers(measured, engines), _stages(measured), _parts(measured)
    claimed = factors.dense_macs(shape) / cell.fastv_macs(shape, study.gamma)
    return PrefillTimes(
        method=cell.cell.method,
        retention=cell.retention(measured.trace.realised_retention),
        layers=layers,
        stages=stages,
        parts=parts,
        totals=_totals(measured),
        claimed_ratio=claimed,
        attribution=tuple(attribute(claimed, _attribution_parts(measured, layers))),
        decode=_decode(measured, study.new_tokens),
        stage_layers=cell.schedule.layers,
        budgets=cell.schedule.budgets,
        notes=measured.trace.notes,
        efficiency=_efficiency(measured, study.gamma),
    )


def _efficiency(measured: LayerMeasurements, gamma: float) -> Efficiency:
    """Return a cell's row of the paper's efficiency table."""
    shape, cell, pairs = measured.workload.shape, measured.cell, measured.samples.pairs
    claimed, dense_claimed = cell.fastv_macs(shape, gamma), factors.dense_macs(shape)
    gammas = factors.gammas(shape, cell, gamma, measured.work.selection_macs)
    inference = claimed - cell.fastv_overhead_macs(shape, gamma)

    def added(durations: Durations, *kinds: str, name: str = "") -> Milliseconds | None:
        regions = [values for key, values in durations.items() if key[0] in kinds and name in ("", key[1])]
        return measured.milliseconds([sum(values) for values in zip(*regions, strict=True)]) if regions else None

    forward, dense_forward = added(measured.pruned, "layer"), added(measured.dense, "layer")
    assert forward is not None and dense_forward is not None
    return Efficiency(
        fastv_macs=claimed,
        dense_fastv_macs=dense_claimed,
        fastv_saved=factors.saved(shape, claimed),
        gammas=gammas,
        formula_totals=factors.formula_totals(shape, cell, gammas, inference),
        counted_macs=measured.work.macs,
        dense_counted_macs=measured.dense_work.macs,
        kv_bytes=measured.work.kv_bytes,
        dense_kv_bytes=measured.dense_work.kv_bytes,
        forward_ms=forward,
        dense_forward_ms=dense_forward,
        **{f"{name}_ms": added(measured.pruned, "stage", "within a stage", name=name) for name in STAGE_PARTS},
        total_ms=measured.milliseconds([pair.pruned.total_ms or 0.0 for pair in pairs]),
        dense_total_ms=measured.milliseconds([pair.dense.total_ms or 0.0 for pair in pairs]),
        total_speedup=median_of(Ratio, [[pair.ratio("total_ms") or 0.0 for pair in pairs]], measured.samples.stopped),
    )


def _decode(measured: LayerMeasurements, new_tokens: int) -> PartTimes:
    """Return the time after the first token in whole generations, dense and pruned."""

    def after_first_token(side: str) -> Milliseconds:
        runs = [getattr(pair, side) for pair in measured.samples.pairs]
        return measured.milliseconds([run.total_ms - run.ttft_ms for run in runs])

    name = f"decode of {units.number_of(new_tokens - 1, 'token')}"
    return PartTimes(name=name, ms=after_first_token("pruned"), dense_ms=after_first_token("dense"))


def _layers(measured: LayerMeasurements, engines: Sequence[Prediction]) -> tuple[LayerTimes, ...]:
    """Return the times of each layer."""
    shape, visual = measured.workload.shape, measured.trace.schedules[0].tokens_by_layer
    return tuple(
        LayerTimes(
            layer=layer,
            tokens=visual[layer - 1] + shape.text_tokens,
            dense_tokens=shape.visual_tokens + shape.text_tokens,
            forward_ms=measured.milliseconds(measured.pruned["layer", f"layer {layer}", layer]),
            dense_forward_ms=measured.milliseconds(measured.dense["layer", f"layer {layer}", layer]),
            operators_ms=span(e.layer_range(visual[layer - 1] + shape.text_tokens) for e in engines)
            if engines
            else None,
        )
        for layer in range(1, shape.num_layers + 1)
    )


def _stages(measured: LayerMeasurements) -> tuple[StageTimes, ...]:
    """Return the times of each stage."""
    return tuple(
        StageTimes(
            layer=stage.layer,
            tokens_before=stage.tokens_before,
            tokens_after=stage.tokens_after,
            **{
                f"{name}_ms": measured.milliseconds(values)
                for (kind, name, layer), values in measured.pruned.items()
                if kind in ("stage", "within a stage") and layer == stage.layer
            },
        )
        for stage in measured.trace.stages
        if ("stage", "selection", stage.layer) in measured.pruned
    )


def _parts(measured: LayerMeasurements) -> tuple[PartTimes, ...]:
    """Return the times of the modules outside the layers, and of the gaps between the regions."""
    absent = [0.0] * len(measured.samples.rounds)
    keys = dict.fromkeys(key for key in (*measured.dense, *measured.pruned) if key[0] in ("module", "gap"))
    return tuple(
        PartTimes(
            name=key[1],
            ms=measured.milliseconds(measured.pruned.get(key, absent)),
            dense_ms=measured.milliseconds(measured.dense.get(key, absent)),
        )
        for key in keys
    )


def _totals(measured: LayerMeasurements) -> Totals:
    """Return the times of the whole prefill."""
    rounds, stopped = measured.samples.rounds, measured.samples.stopped

    def named(timelines: Sequence[Timeline]) -> MeasuredShare:
        shares = [1 - sum(prefill.gaps_ms.values()) / prefill.whole_ms for prefill in timelines]
        return median_of(MeasuredShare, [shares], stopped)

    return Totals(
        prefill_ms=measured.milliseconds([r.pruned_bare_ms for r in rounds]),
        dense_prefill_ms=measured.milliseconds([r.dense_bare_ms for r in rounds]),
        prefill_speedup=median_of(Ratio, [[r.dense_bare_ms / r.pruned_bare_ms for r in rounds]], stopped),
        named=named([r.pruned for r in rounds]),
        dense_named=named([r.dense for r in rounds]),
        instrumented=median_of(Ratio, [[r.pruned.whole_ms / r.pruned_bare_ms for r in rounds]], stopped),
        dense_instrumented=median_of(Ratio, [[r.dense.whole_ms / r.dense_bare_ms for r in rounds]], stopped),
    )


def _durations(timelines: Sequence[Timeline]) -> Durations:
    """Return the milliseconds of each region and gap in each prefill. Repeated runs of a module are added."""
    durations: Durations = {}
    for index, prefill in enumerate(timelines):
        for region in prefill.regions:
            values = durations.setdefault((region.kind, region.name, region.layer), [0.0] * len(timelines))
            values[index] += region.duration_ms
        for name, gap in prefill.gaps_ms.items():
            durations.setdefault(("gap", name, None), [0.0] * len(timelines))[index] = gap
    return durations


def _attribution_parts(measured: LayerMeasurements, layers: Sequence[LayerTimes]) -> list[Part]:
    """Return the times of all parts: modules, gaps, each group of layers between two stages, and the stages.

    A part's time is its mean share of the prefills with marks, of the median time of those without. The shares of a
    round are 1 together, so the parts are the prefill that is printed.
    """
    shape, (dense, pruned) = measured.workload.shape, map(_shares, (measured.dense, measured.pruned))
    totals = _totals(measured)
    whole, dense_whole = totals.prefill_ms.value, totals.dense_prefill_ms.value
    groups = {key: key[1] for key in (*dense, *pruned) if key[0] != "layer"}
    ratios: dict[str, float] = {}
    for _, run in groupby(layers, key=lambda layer: layer.tokens):
        first, *_, last = *(same := list(run)), same[-1]
        name = f"layers {first.layer} to {last.layer}" if last.layer > first.layer else f"layer {first.layer}"
        groups |= {("layer", f"layer {layer.layer}", layer.layer): name for layer in same}
        ratios[name] = formula.layer_macs(first.tokens, shape) / formula.layer_macs(first.dense_tokens, shape)
    parts = {name: [0.0, 0.0] for name in groups.values()}
    for key, name in groups.items():
        parts[name][0] += dense.get(key, 0.0) * dense_whole
        parts[name][1] += pruned.get(key, 0.0) * whole
    return [
        Part(name=name, dense_ms=dense_ms, pruned_ms=pruned_ms, macs_ratio=ratios.get(name))
        for name, (dense_ms, pruned_ms) in parts.items()
    ]


def _shares(durations: Durations) -> dict[Key, float]:
    """Return the mean share of each part that holds no other and lies in no other, over the rounds."""
    parts = {key: values for key, values in durations.items() if key[0] not in ("prefill", "within a stage")}
    wholes = [sum(values) for values in zip(*parts.values(), strict=True)]
    return {
        key: fmean(value / whole for value, whole in zip(values, wholes, strict=True)) for key, values in parts.items()
    }
