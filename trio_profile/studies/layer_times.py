"""Make the document of the kind `layers` from its measured prefills.

A prefill with marks also records the start and the end of each region. A bare prefill has no marks inside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trio_core.trace import Trace
from trio_profile.analysis.attribution import Part, attribute
from trio_profile.analysis.layers import Bounds, LayersDocument, LayerTimes, PartTimes, StageTimes, Totals
from trio_profile.cost import formula
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.roofline import Roofline
from trio_profile.profilers.timeline import Timeline
from trio_profile.records.estimate import MeasuredShare, Milliseconds
from trio_profile.records.schema import Session, Shape, Stopped, Study
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import median
from trio_profile.studies.plan import PlannedCell

Key = tuple[str, str, int | None]
"""The kind, the name and the layer of a region."""


@dataclass(frozen=True)
class Round:
    """Four prefills, measured in a balanced order.

    dense, pruned: the prefills with marks.
    dense_bare_ms, pruned_bare_ms: milliseconds of the bare prefills.
    """

    dense: Timeline
    pruned: Timeline
    dense_bare_ms: float
    pruned_bare_ms: float


@dataclass(frozen=True)
class LayerMeasurements:
    """All measurements of one document.

    workload: the model and its input.
    cell: the cell that was measured.
    trace: the pruning that really ran.
    rounds: the measured prefills.
    stopped: why sampling ended.
    decode: the time after the prefill.
    peaks: the measured peaks of the device.
    flops, dense_flops: counted FLOPs of one prefill, pruned and dense.
    """

    workload: Workload
    cell: PlannedCell
    trace: Trace
    rounds: Sequence[Round]
    stopped: Stopped
    decode: PartTimes
    peaks: Roofline
    flops: int
    dense_flops: int

    @property
    def dense(self) -> list[Timeline]:
        """The dense prefills with marks."""
        return [r.dense for r in self.rounds]

    @property
    def pruned(self) -> list[Timeline]:
        """The pruned prefills with marks."""
        return [r.pruned for r in self.rounds]

    def milliseconds(self, values: Sequence[float]) -> Milliseconds:
        """Return the median of a duration. values: milliseconds, one for each round."""
        return median_of(Milliseconds, [values], self.stopped)


def document(study: Study, session: Session, measured: LayerMeasurements) -> LayersDocument:
    """Return the document of a study."""
    shape = measured.workload.shape
    dense_by, by = _durations(measured.dense), _durations(measured.pruned)
    layers, stages, parts = _layers(measured, dense_by, by), _stages(measured, by), _parts(measured, dense_by, by)
    claimed = _claimed_ratio(shape, measured.cell, study.gamma)
    prefill_parts = _attribution_parts(shape, layers, stages, parts)
    decode = measured.decode
    decoded = Part(name=decode.name, dense_ms=decode.dense_ms.value, pruned_ms=decode.ms.value)
    return LayersDocument(
        sessions=(session,),
        environment=session.environment,
        study=study,
        method=measured.cell.cell.method,
        retention=measured.cell.retention(measured.trace.realised_retention),
        layers=layers,
        stages=stages,
        parts=parts,
        totals=_totals(measured),
        bounds=_bounds(measured),
        claimed_ratio=claimed,
        attribution=tuple(attribute(claimed, prefill_parts)),
        decode=decode,
        total_attribution=tuple(attribute(claimed, [*prefill_parts, decoded])),
    )


def _layers(
    measured: LayerMeasurements, dense_by: dict[Key, list[float]], by: dict[Key, list[float]]
) -> tuple[LayerTimes, ...]:
    """Return the times of each layer. dense_by, by: milliseconds of each region, dense and pruned."""
    shape, visual = measured.workload.shape, measured.trace.schedules[0].tokens_by_layer
    return tuple(
        LayerTimes(
            layer=layer,
            tokens=visual[layer - 1] + shape.text_tokens,
            dense_tokens=shape.visual_tokens + shape.text_tokens,
            forward_ms=measured.milliseconds(by["layer", f"layer {layer}", layer]),
            dense_forward_ms=measured.milliseconds(dense_by["layer", f"layer {layer}", layer]),
        )
        for layer in range(1, shape.num_layers + 1)
    )


def _stages(measured: LayerMeasurements, by: dict[Key, list[float]]) -> tuple[StageTimes, ...]:
    """Return the times of each stage. by: milliseconds of each region of the pruned prefills."""
    return tuple(
        StageTimes(
            layer=stage.layer,
            tokens_before=stage.tokens_before,
            tokens_after=stage.tokens_after,
            **{
                f"{name}_ms": measured.milliseconds(values)
                for (kind, name, layer), values in by.items()
                if kind in ("stage", "within a stage") and layer == stage.layer
            },
        )
        for stage in measured.trace.stages
        if ("stage", "selection", stage.layer) in by
    )


def _parts(
    measured: LayerMeasurements, dense_by: dict[Key, list[float]], by: dict[Key, list[float]]
) -> tuple[PartTimes, ...]:
    """Return the times of the modules outside the layers, and of the gaps between the regions."""
    names = dict.fromkeys(name for found in (dense_by, by) for kind, name, _ in found if kind in ("module", "gap"))
    return tuple(
        PartTimes(
            name=name,
            ms=measured.milliseconds(_part_durations(by, name, measured.rounds)),
            dense_ms=measured.milliseconds(_part_durations(dense_by, name, measured.rounds)),
        )
        for name in names
    )


def _totals(measured: LayerMeasurements) -> Totals:
    """Return the times of the whole prefill."""
    rounds, stopped = measured.rounds, measured.stopped

    def named(timelines: Sequence[Timeline]) -> MeasuredShare:
        shares = [1 - sum(timeline.gaps_ms.values()) / timeline.whole_ms for timeline in timelines]
        return median_of(MeasuredShare, [shares], stopped)

    return Totals(
        prefill_ms=measured.milliseconds([r.pruned_bare_ms for r in rounds]),
        dense_prefill_ms=measured.milliseconds([r.dense_bare_ms for r in rounds]),
        prefill_speedup=ratio_of([[r.dense_bare_ms / r.pruned_bare_ms for r in rounds]], stopped),
        named=named(measured.pruned),
        dense_named=named(measured.dense),
        instrumented=ratio_of([[r.pruned.whole_ms / r.pruned_bare_ms for r in rounds]], stopped),
        dense_instrumented=ratio_of([[r.dense.whole_ms / r.dense_bare_ms for r in rounds]], stopped),
    )


def _bounds(measured: LayerMeasurements) -> Bounds:
    """Return the measured peaks, and how close both prefills come to them."""
    peaks = measured.peaks
    weights = sum(p.numel() * p.element_size() for p in measured.workload.model.parameters())

    def shares(flops: int, times_ms: Sequence[float]) -> tuple[float, float]:
        seconds = median(times_ms) / 1000
        return flops / seconds / peaks.flops_per_second, weights / seconds / peaks.bytes_per_second

    mfu, mbu = shares(measured.flops, [r.pruned_bare_ms for r in measured.rounds])
    dense_mfu, dense_mbu = shares(measured.dense_flops, [r.dense_bare_ms for r in measured.rounds])
    return Bounds(
        flops_per_second=peaks.flops_per_second,
        bytes_per_second=peaks.bytes_per_second,
        mfu=mfu,
        dense_mfu=dense_mfu,
        mbu=mbu,
        dense_mbu=dense_mbu,
        least_ms=peaks.least_ms(measured.flops, weights),
        dense_least_ms=peaks.least_ms(measured.dense_flops, weights),
    )


def _durations(timelines: Sequence[Timeline]) -> dict[Key, list[float]]:
    """Return the milliseconds of each region and gap in each prefill. Repeated runs of a module are added."""
    found: dict[Key, list[float]] = {}
    for index, timeline in enumerate(timelines):
        for region in timeline.regions:
            values = found.setdefault((region.kind, region.name, region.layer), [0.0] * len(timelines))
            values[index] += region.duration_ms
        for name, gap in timeline.gaps_ms.items():
            found.setdefault(("gap", name, None), [0.0] * len(timelines))[index] = gap
    return found


def _part_durations(durations: dict[Key, list[float]], name: str, rounds: Sequence[Round]) -> list[float]:
    """Return the milliseconds of a module or a gap in each round; 0 if it did not run."""
    return next(
        (values for (kind, part, _), values in durations.items() if part == name and kind in ("module", "gap")),
        [0.0] * len(rounds),
    )


def _claimed_ratio(shape: Shape, cell: PlannedCell, gamma: float) -> float:
    """Return dense work / pruned work by the paper's formula."""
    dense = formula.fastv_inference((shape.visual_tokens,) * shape.num_layers, shape.hidden, shape.intermediate)
    return dense * shape.batch / cell.fastv_macs(shape, gamma)


def _attribution_parts(
    shape: Shape, layers: Sequence[LayerTimes], stages: Sequence[StageTimes], parts: Sequence[PartTimes]
) -> list[Part]:
    """Return the median times of all parts: modules, gaps, each group of layers between two stages, and the stages."""

    def macs(tokens: int) -> int:
        return formula.layer_macs(tokens, shape)

    found = [Part(name=part.name, dense_ms=part.dense_ms.value, pruned_ms=part.ms.value) for part in parts]
    runs: dict[int, list[LayerTimes]] = {}
    for layer in layers:
        runs.setdefault(layer.tokens, []).append(layer)
    for run in runs.values():
        first, last = run[0].layer, run[-1].layer
        found.append(
            Part(
                name=f"layers {first} to {last}" if last > first else f"layer {first}",
                dense_ms=sum(layer.dense_forward_ms.value for layer in run),
                pruned_ms=sum(layer.forward_ms.value for layer in run),
                macs_ratio=macs(run[0].tokens) / macs(run[0].dense_tokens),
            )
        )
    for name in ("selection", "compaction"):
        spent = sum(getattr(stage, f"{name}_ms").value for stage in stages)
        found.append(Part(name=name, dense_ms=0.0, pruned_ms=spent))
    return found


def chrome_trace(rounds: Sequence[Round]) -> dict[str, Any]:
    """Return the round of median length as trace events. Perfetto and chrome://tracing open them."""
    middle = sorted(rounds, key=lambda r: r.pruned.whole_ms)[len(rounds) // 2]
    events: list[dict[str, Any]] = []
    for process, (name, timeline) in enumerate((("dense", middle.dense), ("pruned", middle.pruned)), start=1):
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
            for region in timeline.regions
        ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
