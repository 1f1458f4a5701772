"""Predict one prefill, dense and pruned, under each engine that has a table of the GPU."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trio_profile import units
from trio_profile.cost.aiconfigurator import tables
from trio_profile.cost.prediction import Prediction, span
from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue, host
from trio_profile.inputs.sizes import sizes_of
from trio_profile.judge.claims import of_predictions
from trio_profile.kinds.predict.document import Against, PredictedCell, PredictionDocument, PredictStudy
from trio_profile.progress import Watch, ignore
from trio_profile.records.schema import Cell, Shape
from trio_profile.records.store import Store
from trio_profile.study.kinds import find

# The retentions among which the break-even is searched.
TRIED = [share / 100 for share in range(1, 100)]


def run(study: PredictStudy, directory: Path | None = None, watch: Watch = ignore) -> PredictionDocument:  # noqa: ARG001
    """Predict a study's prefill.

    Raises StudyError for a model, a method, a GPU, an engine or a size that cannot be predicted, and for a study
    `against` of another model. Raises RetentionError for a retention that the layers cannot reach.
    """
    selection, (measured, timed) = declared(study.method), _measured(study)
    of_gpu = tables(study.gpu, study.engine)
    sizes, retentions = (study.visual_tokens, study.text_tokens, study.batch), study.retentions
    if timed:
        sizes = measured.dense.visual_tokens, measured.dense.text_tokens, measured.study.batch
        retentions = tuple(cell.nominal_retention for cell in timed)
    shape, tower = sizes_of(study.model, *sizes)
    prefills = [Prediction(table, shape, tower, study.tp) for table in of_gpu]
    cells = tuple(cell_of(retention, prefills, selection) for retention in retentions)
    whole, none = (shape.visual_tokens,) * shape.num_layers, (0,) * shape.num_layers
    times = [prefill.encoding + prefill.decoder(whole) for prefill in prefills]
    shares = np.mean([time / time.sum() for time in times], axis=0)
    return PredictionDocument(
        sessions=(host.session(host.without_torch()),),
        study=study,
        gpu=of_gpu[0].gpu,
        engines=tuple(table.engine for table in of_gpu),
        visual_tokens=shape.visual_tokens,
        text_tokens=shape.text_tokens,
        dense_ms=span(prefill.whole() for prefill in prefills),
        tower_ms=span((ms, ms) for ms in (float(prefill.encoding.sum()) for prefill in prefills)),
        cap=span(prefill.gain(prefill.whole(none)) for prefill in prefills),
        shares=tuple(shares.tolist()),
        selection_source=selection["source"],
        cells=cells,
        break_even=_break_even(prefills, selection),
        cliffs=tuple(_cliffs(prefills, {shape.visual_tokens, *(budget for cell in cells for budget in cell.budgets)})),
        against=tuple(_against(timed, prefills, cells)),
        against_device=measured.environment.device_name if timed else "",
    )


def declared(method: str) -> dict[str, Any]:
    """Return the declared selection of a method. Raises StudyError for a method without one."""
    catalogue.require_method(method)
    known = {name: facts.selection for name, facts in catalogue.methods().items() if facts.selection}
    if method not in known:
        raise StudyError(f"method {method!r} declares no operators of its selection: choose {', '.join(known)}")
    return known[method]


def _schedule(retention: float, selection: Mapping[str, Any], shape: Shape) -> Any:
    """Return the schedule of a retention. Raises RetentionError if the layers cannot reach it."""
    from trio_core.rules.cost import suppression_macs, tail_macs, without_losing_stages
    from trio_core.rules.schedule import Schedule, default_layers

    layers, depth, proportion = tuple(selection["layers"]), shape.num_layers, selection["proportion"]
    layers = default_layers(depth, layers) if selection["scales_layers"] else layers
    sizes = {"visual_tokens": shape.visual_tokens, "num_layers": depth}
    schedule = Schedule.average(retention=retention, layers=layers, proportion=proportion, **sizes)
    if not selection["leaves_out_stages"]:
        return schedule
    rows = catalogue.methods()["trio"].options["k_pos"]
    return without_losing_stages(
        schedule,
        retention,
        proportion,
        catalogue.layer_shape(shape),
        lambda widths, _, counts: tail_macs(widths, counts, rows) + suppression_macs(widths, counts),
    )


def cell_of(retention: float, prefills: Sequence[Prediction], selection: Mapping[str, Any]) -> PredictedCell:
    """Return one retention. Raises RetentionError if the layers cannot reach it."""
    schedule = _schedule(retention, selection, prefills[0].shape)
    selections = [prefill.selections(selection, schedule.budgets) for prefill in prefills]
    pruned = [prefill.whole(schedule.tokens_by_layer, own) for prefill, own in zip(prefills, selections, strict=True)]
    gain = span(prefill.gain(own) for prefill, own in zip(prefills, pruned, strict=True))
    return PredictedCell(
        retention=retention,
        layer_average=schedule.layer_average,
        layers=schedule.layers,
        budgets=schedule.budgets,
        selection_ms=span(selections),
        pruned_ms=span(pruned),
        gain=gain,
        word=of_predictions({"": gain}).word,
    )


def _break_even(prefills: Sequence[Prediction], selection: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the highest retention that gains, of the worst end of any engine and of the best one."""
    from trio_core.errors import RetentionError

    worst, best = None, None
    for share in TRIED:
        with suppress(RetentionError):
            low, high = cell_of(share, prefills, selection).gain
            worst, best = share if low > 1 else worst, share if high > 1 else best
    return worst, best


def _cliffs(prefills: Iterable[Prediction], visual: Iterable[int]) -> Iterator[str]:
    """Yield the cliffs near the numbers of visual tokens that layers see, each once for each engine."""
    for prefill in prefills:
        steps = {prefill.cliff(tokens + prefill.shape.text_tokens) for tokens in visual}
        for fewer, more, factor in sorted(filter(None, steps)):
            yield f"{prefill.tables.engine}, {units.span(fewer, more)} tokens: {units.times(factor)}"


def _measured(study: PredictStudy) -> tuple[Any, list[Any]]:
    """Return the document of the study `against`, and its cells with times. Raises StudyError if it has none."""
    if study.against is None:
        return None, []
    document = find("sweep").load("document")(Store(Path(study.against)).read())
    timed = [
        cell
        for cell in document.cells
        if cell.cell.id == Cell(method=study.method, retention=cell.cell.retention).id and cell.status == "done"
    ]
    if document.study.model != study.model or not timed:
        wanted = f"no finished cell of {study.method} on {study.model}"
        raise StudyError(f"{study.against} holds {wanted}: it is a study of {document.study.model}")
    return document, timed


def _against(timed: Sequence[Any], prefills: Sequence[Prediction], cells: Sequence[PredictedCell]) -> Iterator[Against]:
    """Yield the measured prefills beside the predicted ones: dense first."""
    rows = [("dense", cell.dense_prefill_ms.value, span(map(Prediction.whole, prefills))) for cell in timed[:1]]
    for cell, own in zip(cells if timed else (), timed, strict=True):
        rows.append((f"{own.method} at {units.percent(cell.layer_average)}", own.prefill_ms.value, cell.pruned_ms))
    for name, ms, (low, high) in rows:
        yield Against(name=name, measured_ms=ms, predicted_ms=(low, high), ratio=(ms / high, ms / low))
