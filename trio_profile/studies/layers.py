"""Where the time of one prefill goes: every decoder layer and every stage, dense beside pruned, and a trace of both."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trio_core.trace import Trace
from trio_profile.analysis.attribution import Part, attribute
from trio_profile.analysis.layers import Bounds, LayersDocument, LayerTimes, PartTimes, StageTimes, Totals
from trio_profile.cost import formula as cost_model
from trio_profile.inputs.environment import collect
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import flops_counted, latency, roofline, timeline
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.profilers.roofline import Roofline
from trio_profile.profilers.timeline import Timeline
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.records.schema import Retention, Shape, Stopped, Study
from trio_profile.records.store import write_whole
from trio_profile.stats.estimates import median_of, ratio_of
from trio_profile.stats.intervals import median
from trio_profile.stats.stopping import decide
from trio_profile.studies.plan import Planned, plan

WARMUPS = 2


@dataclass(frozen=True)
class Round:
    """Four prefills in random order, in ms: dense and pruned, bare and with marks."""

    dense: Timeline
    pruned: Timeline
    dense_bare_ms: float
    pruned_bare_ms: float


def run(study: Study, *, out: Path | None = None, clock: Clock | None = None) -> LayersDocument:
    """Time the first cell of a study beside its dense model. out: where `trace.json` goes, for Perfetto or Chrome.

    Raises StudyError for a model or an input that cannot be used, OptionError for a retention out of reach, StoreError
    for a trace that cannot be written.
    """
    workload = build(study)
    cell = plan(study, workload.shape)[0]
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    # Counts first: an allocator that has not seen large blocks freed is slower by a quarter.
    dense_work, _ = flops_counted.prefill(workload, None)
    work, trace = flops_counted.prefill(workload, cell.method)
    assert trace is not None
    rounds, stopped = _rounds(workload, cell, study, clock)
    decode = _decode(workload, cell, study, clock)
    peaks = roofline.measure(workload.device, workload.model.dtype, clock=clock)
    bounded = _Bounded(peaks, 2 * work.macs, 2 * dense_work.macs)
    document = _document(study, workload, cell, trace, rounds, stopped, decode, bounded)
    if out is None:
        return document
    path = out / "trace.json"
    write_whole(path, json.dumps(chrome_trace(rounds)))
    return document.model_copy(update={"trace": str(path)})


def _rounds(workload: Workload, cell: Planned, study: Study, clock: Clock) -> tuple[list[Round], Stopped]:
    order, rounds, spent_ms = random.Random(study.seed), list[Round](), 0.0
    for _ in range(WARMUPS):
        _round(workload, cell, clock, order)
    while True:
        one = _round(workload, cell, clock, order)
        rounds.append(one)
        spent_ms += one.dense.whole_ms + one.pruned.whole_ms + one.dense_bare_ms + one.pruned_bare_ms
        ratios = [r.dense_bare_ms / r.pruned_bare_ms for r in rounds]
        if stopped := decide(ratios, spent_ms / 1000, precision=study.precision, seconds=study.cell_seconds):
            return rounds, stopped


def _round(workload: Workload, cell: Planned, clock: Clock, order: random.Random) -> Round:
    todo = [(dense, marked) for dense in (True, False) for marked in (True, False)]
    order.shuffle(todo)
    found: dict[tuple[bool, bool], Any] = {}
    for dense, marked in todo:
        method = None if dense else cell.method
        found[dense, marked] = (
            timeline.measure(workload, method, clock)[0] if marked else timeline.bare(workload, method, clock)
        )
    return Round(found[True, True], found[False, True], found[True, False], found[False, False])


def _decode(workload: Workload, cell: Planned, study: Study, clock: Clock) -> PartTimes:
    """What follows the prefill in whole generations, dense and pruned in turn."""
    [(_, found)] = latency.measure(
        workload,
        [cell.method],
        precision=study.precision,
        seconds=study.cell_seconds / 4,
        seed=study.seed,
        clock=clock,
    )

    def after_the_first_token(side: str) -> Milliseconds:
        times = [getattr(pair, f"{side}total_ms") - getattr(pair, f"{side}ttft_ms") for pair in found.pairs]
        return median_of(Milliseconds, times, found.stopped)

    return PartTimes(
        name=f"decode of {study.new_tokens - 1} tokens",
        ms=after_the_first_token(""),
        dense_ms=after_the_first_token("dense_"),
    )


@dataclass(frozen=True)
class _Bounded:
    """Measured peaks, and the counted FLOPs that are held against them."""

    peaks: Roofline
    flops: int
    dense_flops: int

    def bounds(self, workload: Workload, ms: float, dense_ms: float) -> Bounds:
        weights = sum(p.numel() * p.element_size() for p in workload.model.parameters())
        peaks = self.peaks

        def shares(flops: int, spent_ms: float) -> tuple[float, float]:
            seconds = spent_ms / 1000
            return flops / seconds / peaks.flops_per_second, weights / seconds / peaks.bytes_per_second

        (mfu, mbu), (dense_mfu, dense_mbu) = shares(self.flops, ms), shares(self.dense_flops, dense_ms)
        return Bounds(
            flops_per_second=peaks.flops_per_second,
            bytes_per_second=peaks.bytes_per_second,
            mfu=mfu,
            dense_mfu=dense_mfu,
            mbu=mbu,
            dense_mbu=dense_mbu,
            least_ms=peaks.least_ms(self.flops, weights),
            dense_least_ms=peaks.least_ms(self.dense_flops, weights),
        )


def _document(
    study: Study,
    workload: Workload,
    cell: Planned,
    trace: Trace,
    rounds: Sequence[Round],
    stopped: Stopped,
    decode: PartTimes,
    bounded: _Bounded,
) -> LayersDocument:
    shape = workload.shape

    def quantity(values: Sequence[float]) -> Milliseconds:
        return median_of(Milliseconds, values, stopped)

    def ratios(values: Sequence[float]) -> Ratio:
        return ratio_of(values, stopped)

    dense, pruned = ([getattr(one, side) for one in rounds] for side in ("dense", "pruned"))
    dense_by, by = _durations(dense), _durations(pruned)
    visual = trace.schedules[0].tokens_by_layer
    whole = shape.visual_tokens + shape.text_tokens
    layers = tuple(
        LayerTimes(
            layer=layer,
            tokens=visual[layer - 1] + shape.text_tokens,
            dense_tokens=whole,
            forward_ms=quantity(by["layer", f"layer {layer}", layer]),
            dense_forward_ms=quantity(dense_by["layer", f"layer {layer}", layer]),
        )
        for layer in range(1, shape.num_layers + 1)
    )
    stages = tuple(
        StageTimes(
            layer=stage.layer,
            tokens_before=stage.tokens_before,
            tokens_after=stage.tokens_after,
            **{
                f"{name}_ms": quantity(values)
                for (kind, name, layer), values in by.items()
                if kind in ("stage", "within a stage") and layer == stage.layer
            },
        )
        for stage in trace.stages
        if ("stage", "selection", stage.layer) in by
    )
    names = dict.fromkeys(name for timed in (dense_by, by) for kind, name, _ in timed if kind in ("module", "gap"))
    parts = tuple(
        PartTimes(name=name, ms=quantity(_of(by, name, rounds)), dense_ms=quantity(_of(dense_by, name, rounds)))
        for name in names
    )
    claimed = _claimed_ratio(shape, cell, study.gamma)
    walked = _attributable(shape, layers, stages, parts)
    decoded = Part(name=decode.name, dense_ms=decode.dense_ms.value, pruned_ms=decode.ms.value)
    schedule = cell.schedule
    prefill, dense_prefill = ([getattr(one, f"{side}_bare_ms") for one in rounds] for side in ("pruned", "dense"))
    return LayersDocument(
        environment=collect(study.device),
        study=study,
        method=cell.cell.method,
        retention=Retention(
            nominal=cell.cell.retention,
            layer_average=schedule.layer_average,
            final_layer=schedule.final_layer,
            realised=trace.realised_retention,
        ),
        layers=layers,
        stages=stages,
        parts=parts,
        totals=Totals(
            prefill_ms=quantity(prefill),
            dense_prefill_ms=quantity(dense_prefill),
            prefill_speedup=ratios([one.dense_bare_ms / one.pruned_bare_ms for one in rounds]),
            named=median_of(MeasuredShare, [1 - sum(one.gaps_ms.values()) / one.whole_ms for one in pruned], stopped),
            dense_named=median_of(
                MeasuredShare, [1 - sum(one.gaps_ms.values()) / one.whole_ms for one in dense], stopped
            ),
            instrumented=ratios([one.pruned.whole_ms / one.pruned_bare_ms for one in rounds]),
            dense_instrumented=ratios([one.dense.whole_ms / one.dense_bare_ms for one in rounds]),
        ),
        bounds=bounded.bounds(workload, median(prefill), median(dense_prefill)),
        claimed_ratio=claimed,
        attribution=tuple(attribute(claimed, walked)),
        decode=decode,
        total_attribution=tuple(attribute(claimed, [*walked, decoded])),
    )


Key = tuple[str, str, int | None]


def _durations(timelines: Sequence[Timeline]) -> dict[Key, list[float]]:
    """Milliseconds of each region over the rounds; a module that runs twice in one prefill is summed."""
    found: dict[Key, list[float]] = {}
    for index, one in enumerate(timelines):
        for region in one.regions:
            values = found.setdefault((region.kind, region.name, region.layer), [0.0] * len(timelines))
            values[index] += region.duration_ms
        for name, gap in one.gaps_ms.items():
            found.setdefault(("gap", name, None), [0.0] * len(timelines))[index] = gap
    return found


def _of(durations: dict[Key, list[float]], name: str, rounds: Sequence[Round]) -> list[float]:
    """Of a module or a gap; nothing where it did not run."""
    return next(
        (v for (kind, n, _), v in durations.items() if n == name and kind in ("module", "gap")), [0.0] * len(rounds)
    )


def _claimed_ratio(shape: Shape, cell: Planned, gamma: float) -> float:
    dense = cost_model.fastv_inference((shape.visual_tokens,) * shape.num_layers, shape.hidden, shape.intermediate)
    return dense * shape.batch / cell.fastv_macs(shape, gamma)


def _attributable(
    shape: Shape, layers: Sequence[LayerTimes], stages: Sequence[StageTimes], parts: Sequence[PartTimes]
) -> list[Part]:
    """Modules and gaps, each run of layers between two stages, and the stages, side by side, by their medians."""
    widths = (shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, shape.ffn_matrices)

    def macs(tokens: int) -> int:
        return cost_model.layer_macs(tokens, *widths)

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
    """The round of median length as trace events, which Perfetto and chrome://tracing open: dense and pruned."""
    middle = sorted(rounds, key=lambda one: one.pruned.whole_ms)[len(rounds) // 2]
    events: list[dict[str, Any]] = []
    for process, (name, one) in enumerate((("dense", middle.dense), ("pruned", middle.pruned)), start=1):
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
            for region in one.regions
        ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
