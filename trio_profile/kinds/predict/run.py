"""Predict one prefill, dense and pruned, under each engine that has a table of the GPU."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trio_profile import units
from trio_profile.cost.aiconfigurator import tables
from trio_profile.cost.prediction import Prefill, total
from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue, host
from trio_profile.inputs.sizes import sizes_of
from trio_profile.judge.claims import of_predictions
from trio_profile.kinds.predict.document import (
    Against,
    Cliff,
    EngineTable,
    PredictedCell,
    PredictionDocument,
    PredictStudy,
    Shares,
)
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.estimate import Interval
from trio_profile.records.store import Store
from trio_profile.study.kinds import find

TRIED = [share / 100 for share in range(1, 100)]
"""The retentions among which the break-even is searched."""


def run(study: PredictStudy, directory: Path | None = None, watch: Watch = ignore) -> PredictionDocument:  # noqa: ARG001
    """Predict a study's prefill.

    Raises StudyError for a model, a method, a GPU, an engine or a size that cannot be predicted, and for a study
    `against` of another model. Raises RetentionError for a retention that the layers cannot reach.
    """
    declared, measured = _declared(study.method), _measured(study)
    of_gpu = tables(study.gpu, study.engine)
    watch(Step(f"reading the tables of {of_gpu[0].gpu}"))
    sizes = {name: getattr(study, name) for name in ("visual_tokens", "text_tokens", "batch")}
    retentions = study.retentions
    if measured is not None:
        dense = measured.dense
        sizes = {"visual_tokens": dense.visual_tokens, "text_tokens": dense.text_tokens, "batch": measured.study.batch}
        retentions = tuple(sorted({cell.nominal_retention for cell in _cells_of(measured, study.method)}))
    shape, tower = sizes_of(study.model, **sizes)
    prefills = [Prefill(table, shape, tower, study.tp) for table in of_gpu]
    schedule = _schedules(declared, study.layers, shape.visual_tokens, shape.num_layers)
    whole = (shape.visual_tokens,) * shape.num_layers
    operators = [total([prefill.encoding(), prefill.decoder(whole)]) for prefill in prefills]
    cells = tuple(_cell(study.method, retention, schedule(retention), prefills, declared) for retention in retentions)
    session = host.session(host.without_torch())
    return PredictionDocument(
        sessions=(session,),
        environment=session.environment,
        study=study,
        gpu=of_gpu[0].gpu,
        engines=tuple(EngineTable(engine=table.engine, version=table.version) for table in of_gpu),
        visual_tokens=shape.visual_tokens,
        text_tokens=shape.text_tokens,
        dense_ms=_range(prefill.whole(whole) for prefill in prefills),
        tower_ms=_range((prefill.encoding().ms,) * 2 for prefill in prefills),
        cap=_range(_gain(prefill, prefill.whole((0,) * shape.num_layers)) for prefill in prefills),
        shares=Shares(
            **{
                source: sum(getattr(time, source) / time.ms for time in operators) / len(operators)
                for source in Shares.model_fields
            }
        ),
        selection_source=declared["source"],
        cells=cells,
        break_even=_break_even(prefills, schedule, declared),
        cliffs=tuple(_cliffs(prefills, {shape.visual_tokens, *(budget for cell in cells for budget in cell.budgets)})),
        against=() if measured is None else tuple(_against(measured, study.method, prefills, cells)),
        against_device="" if measured is None else measured.environment.device_name,
    )


def _declared(method: str) -> dict[str, Any]:
    """Return the declared selection of a method. Raises StudyError for a method without one."""
    known = catalogue.methods()
    if method not in known:
        catalogue.require_method(method)
    declared = known[method].selection if method in known else None
    if declared is None or declared["launches"] is None:
        declaring = sorted(name for name, facts in known.items() if facts.selection)
        raise StudyError(f"method {method!r} declares no operators of its selection: choose {', '.join(declaring)}")
    return declared


def _schedules(
    declared: Mapping[str, Any], layers: tuple[int, ...] | None, visual_tokens: int, num_layers: int
) -> Callable[[float], Any]:
    """Return the function that makes the schedule of a retention."""
    from trio_core.rules.schedule import Schedule, default_layers

    paper = tuple(declared["layers"])
    places = layers or (default_layers(num_layers, paper) if declared["scales_layers"] else paper)
    return lambda retention: Schedule.average(
        retention=retention,
        visual_tokens=visual_tokens,
        num_layers=num_layers,
        layers=places,
        proportion=declared["proportion"],
    )


def _cell(
    method: str, retention: float, schedule: Any, prefills: Sequence[Prefill], declared: Mapping[str, Any]
) -> PredictedCell:
    selections = [prefill.selections(declared, schedule.budgets) for prefill in prefills]
    pruned = [
        prefill.whole(schedule.tokens_by_layer, selection)
        for prefill, selection in zip(prefills, selections, strict=True)
    ]
    gain = _range(map(_gain, prefills, pruned))
    return PredictedCell(
        method=method,
        retention=retention,
        layer_average=schedule.layer_average,
        layers=schedule.layers,
        budgets=schedule.budgets,
        selection_ms=_range(selections),
        pruned_ms=_range(pruned),
        gain=gain,
        word=of_predictions({method: gain}).word,
    )


def _gain(prefill: Prefill, pruned: Interval) -> Interval:
    """Return dense over pruned of one engine. What the tables leave out of a layer is the same on both sides."""
    shape = prefill.shape
    least, most = prefill.whole((shape.visual_tokens,) * shape.num_layers)
    ends = least / pruned[0], most / pruned[1]
    return min(ends), max(ends)


def _range(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest interval that holds all of them."""
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def _break_even(
    prefills: Sequence[Prefill], schedule: Callable[[float], Any], declared: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Return the highest retention that gains, of the worst end of any engine and of the best one."""
    from trio_core.errors import RetentionError

    gains: dict[float, Interval] = {}
    for share in TRIED:
        try:
            gains[share] = _cell("", share, schedule(share), prefills, declared).gain
        except RetentionError:
            continue
    least, most = (max((share for share, gain in gains.items() if gain[end] > 1), default=None) for end in (0, 1))
    return least, most


def _cliffs(prefills: Iterable[Prefill], visual: Iterable[int]) -> Iterator[Cliff]:
    """Yield the cliffs near the numbers of visual tokens that layers see, each once for each engine."""
    for prefill in prefills:
        steps = {prefill.cliff(tokens + prefill.shape.text_tokens) for tokens in visual} - {None}
        for fewer, more, factor in sorted(step for step in steps if step):
            yield Cliff(engine=prefill.tables.engine, fewer=fewer, more=more, factor=factor)


def _measured(study: PredictStudy) -> Any:
    """Return the document of the study `against`; None without one. Raises StudyError if it is of another model."""
    if study.against is None:
        return None
    document = find("sweep").load("document")(Store(Path(study.against)).read())
    if document.study.model != study.model or document.dense is None:
        raise StudyError(f"{study.against} is a study of {document.study.model}, not of {study.model}: name its model")
    if not _cells_of(document, study.method):
        raise StudyError(f"{study.against} holds no finished cell of {study.method}: name another --method")
    return document


def _cells_of(document: Any, method: str) -> list[Any]:
    return [cell for cell in document.cells if cell.method == method and cell.status == "done"]


def _against(
    measured: Any, method: str, prefills: Sequence[Prefill], cells: Sequence[PredictedCell]
) -> Iterator[Against]:
    """Yield the measured prefills beside the predicted ones: dense first."""
    shape = prefills[0].shape
    dense = _range(prefill.whole((shape.visual_tokens,) * shape.num_layers) for prefill in prefills)
    predicted = {cell.retention: cell.pruned_ms for cell in cells}
    rows = [("dense", measured.dense, dense)]
    for cell in _cells_of(measured, method):
        rows.append((f"{method} at {units.percent(cell.nominal_retention)}", cell, predicted[cell.nominal_retention]))
    for name, summary, range_ms in rows:
        ms = summary.prefill_ms.value
        yield Against(name=name, measured_ms=ms, predicted_ms=range_ms, ratio=(ms / range_ms[1], ms / range_ms[0]))
