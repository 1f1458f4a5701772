"""Make the document of the kind `layers` from its measured prefills.

A prefill with marks also records the start and the end of each region. A bare prefill has no marks inside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trio_core.trace import Trace
from trio_profile import units
from trio_profile.cost import formula
from trio_profile.engine import factors
from trio_profile.engine.plan import PlannedCell
from trio_profile.inputs.workload import Workload
from trio_profile.judge.attribution import Part, attribute
from trio_profile.kinds.layers.document import (
    STAGE_PARTS,
    Efficiency,
    LayerTimes,
    PartTimes,
    PrefillTimes,
    StageTimes,
    Totals,
)
from trio_profile.profilers.timeline import Timeline
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.records.schema import Pair, Shape, Stopped, Study
from trio_profile.stats.estimates import median_of
from trio_profile.stats.two_way import centre_of

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


def times_of(measured: LayerMeasurements, study: Study) -> PrefillTimes:
    """Return the times of one cell."""
    shape, cell = measured.workload.shape, measured.cell
    layers, stages, parts = _layers(measured), _stages(measured), _parts(measured)
    claimed = factors.dense_macs(shape) / cell.fastv_macs(shape, study.gamma)
    return PrefillTimes(
        method=cell.cell.method,
        retention=cell.retention(measured.trace.realised_retention),
        layers=layers,
        stages=stages,
        parts=parts,
        totals=_totals(measured),
        claimed_ratio=claimed,
        attribution=tuple(attribute(claimed, _attribution_parts(shape, layers, stages, parts))),
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


def _layers(measured: LayerMeasurements) -> tuple[LayerTimes, ...]:
    """Return the times of each layer."""
    shape, visual = measured.workload.shape, measured.trace.schedules[0].tokens_by_layer
    return tuple(
        LayerTimes(
            layer=layer,
            tokens=visual[layer - 1] + shape.text_tokens,
            dense_tokens=shape.visual_tokens + shape.text_tokens,
            forward_ms=measured.milliseconds(measured.pruned["layer", f"layer {layer}", layer]),
            dense_forward_ms=measured.milliseconds(measured.dense["layer", f"layer {layer}", layer]),
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
        shares = [1 - sum(timeline.gaps_ms.values()) / timeline.whole_ms for timeline in timelines]
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
    for index, timeline in enumerate(timelines):
        for region in timeline.regions:
            values = durations.setdefault((region.kind, region.name, region.layer), [0.0] * len(timelines))
            values[index] += region.duration_ms
        for name, gap in timeline.gaps_ms.items():
            durations.setdefault(("gap", name, None), [0.0] * len(timelines))[index] = gap
    return durations


def _attribution_parts(
    shape: Shape, layers: Sequence[LayerTimes], stages: Sequence[StageTimes], parts: Sequence[PartTimes]
) -> list[Part]:
    """Return the median times of all parts: modules, gaps, each group of layers between two stages, and the stages."""

    def macs(tokens: int) -> int:
        return formula.layer_macs(tokens, shape)

    all_parts = [Part(name=part.name, dense_ms=part.dense_ms.value, pruned_ms=part.ms.value) for part in parts]
    runs: dict[int, list[LayerTimes]] = {}
    for layer in layers:
        runs.setdefault(layer.tokens, []).append(layer)
    for run in runs.values():
        first, last = run[0].layer, run[-1].layer
        all_parts.append(
            Part(
                name=f"layers {first} to {last}" if last > first else f"layer {first}",
                dense_ms=sum(layer.dense_forward_ms.value for layer in run),
                pruned_ms=sum(layer.forward_ms.value for layer in run),
                macs_ratio=macs(run[0].tokens) / macs(run[0].dense_tokens),
            )
        )
    for name in ("selection", "compaction"):
        spent = sum(getattr(stage, f"{name}_ms").value for stage in stages)
        all_parts.append(Part(name=name, dense_ms=0.0, pruned_ms=spent))
    return all_parts
