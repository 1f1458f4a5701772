"""The charts of an evaluation: the average against the speed-up, and the difference of each benchmark."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.eval_verdict import verdict
from trio_profile.analysis.evaluation import BenchmarkScore, EvaluatedCell, Evaluation
from trio_profile.findings.blocks import Axis, Chart, Series
from trio_profile.findings.charts import ends
from trio_profile.findings.eval_tables import colour_of, name_of, rows_of
from trio_profile.records.estimate import Ratio

_SPREAD = 0.7
"""The share of a benchmark's place over which the points of the cells are spread."""
_Placed = tuple[EvaluatedCell, Ratio, float]
"""A row with its speed-up and its average."""


def speed_and_average(document: Evaluation) -> Chart | None:
    """Prefill speed-up against the average. None if no row has both."""
    placed = [
        (row, row.prefill_speedup, row.average)
        for row in rows_of(document)
        if row.prefill_speedup is not None and row.average is not None
    ]
    if not placed:
        return None
    best = verdict([row for row, *_ in placed]).best
    bounds = [bound for _, speedup, _ in placed for bound in speedup.ci95]
    names = ", ".join(map(name_of, best))
    return Chart(
        id="average",
        caption="Speed and average score",
        label=f"Prefill speed-up against the average as a share of dense. On the Pareto front: {names}",
        x=Axis("Prefill speed-up over dense", min(bounds) - 0.1, max(bounds) + 0.1, "×"),
        y=Axis("Average, share of dense", suffix=" %", digits=1),
        series=[
            _method(document, method, placed, best) for method in dict.fromkeys(_method_of(row) for row, *_ in placed)
        ],
        levels=[100],
        picker=len(document.study.methods) > 1,
        detail=len(placed) == 1,
    )


def _method(document: Evaluation, method: str, placed: Sequence[_Placed], best: Sequence[EvaluatedCell]) -> Series:
    """The points of one method. A filled point is on the Pareto front."""
    own = [one for one in placed if _method_of(one[0]) == method]
    x_low, x_high = ends([speedup.ci95 for _, speedup, _ in own])
    low, high = ends([row.average_ci95 or (average, average) for row, _, average in own], 100)
    return Series(
        method,
        [speedup.value for _, speedup, _ in own],
        [100 * average for *_, average in own],
        [_text(*one) for one in own],
        low,
        high,
        x_low,
        x_high,
        band=False,
        colour=colour_of(document, own[0][0]),
        hollow=[row not in best for row, *_ in own],
        labels=[name_of(row) if row in best else "" for row, *_ in own],
        size=9,
        group=method,
    )


def _text(row: EvaluatedCell, speedup: Ratio, average: float) -> str:
    kept = units.percent_within(average, row.average_ci95) if row.average_ci95 else units.percent(average)
    return f"{name_of(row)}\nprefill {units.times_within(speedup.value, speedup.ci95)}\naverage {kept} of dense"


def differences(document: Evaluation) -> Chart | None:
    """The difference of each benchmark with an interval, as a share of dense. None if there is none."""
    rows = [(row, _known(document, row)) for row in rows_of(document)]
    shown = [(row, found) for row, found in rows if found]
    if not shown:
        return None
    series = [
        _differences(document, row, found, _SPREAD * ((number + 0.5) / len(shown) - 0.5))
        for number, (row, found) in enumerate(shown)
    ]
    return Chart(
        id="differences",
        caption="Differences to dense",
        label="The difference of each score to dense, with its interval. The table has the numbers.",
        x=Axis("", names=[column.name for column in document.benchmarks]),
        y=Axis("Difference, share of dense", suffix=" %", digits=1),
        series=series,
        levels=[0],
        picker=len(document.study.methods) > 1,
    )


def _known(document: Evaluation, row: EvaluatedCell) -> list[tuple[int, BenchmarkScore]]:
    """The scores of a row whose difference has an interval, each with the number of its column."""
    places = {column.name: number for number, column in enumerate(document.benchmarks)}
    return [
        (places[score.benchmark], score)
        for score in row.benchmarks
        if score.ci95 is not None and score.dense and score.benchmark in places
    ]


def _differences(
    document: Evaluation, row: EvaluatedCell, found: Sequence[tuple[int, BenchmarkScore]], shift: float
) -> Series:
    """The differences of one row. shift: how far its points stand beside the middle of their column."""
    low, high = ends([_of_dense(score) for _, score in found], 100)
    return Series(
        name_of(row),
        [place + shift for place, _ in found],
        [100 * (score.difference or 0.0) / (score.dense or 1.0) for _, score in found],
        [_said(row, score) for _, score in found],
        low,
        high,
        band=False,
        colour=colour_of(document, row),
        line=None,
        size=8,
        group=_method_of(row),
    )


def _of_dense(score: BenchmarkScore) -> tuple[float, float]:
    """The interval of a difference as shares of dense."""
    low, high = score.ci95 or (0.0, 0.0)
    return low / (score.dense or 1.0), high / (score.dense or 1.0)


def _said(row: EvaluatedCell, score: BenchmarkScore) -> str:
    difference = units.task_score_difference(score.difference or 0.0, score.value, score.ci95)
    return f"{score.benchmark}, {name_of(row)}\n{units.task_score(score.value)}, {difference} to dense"


def _method_of(row: EvaluatedCell) -> str:
    return row.cell.method if row.cell is not None else "dense"
