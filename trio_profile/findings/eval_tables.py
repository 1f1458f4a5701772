"""The tables of an evaluation: scores, cost, and all metrics of all tasks."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.eval_verdict import outcome
from trio_profile.analysis.evaluation import (
    Benchmark,
    BenchmarkScore,
    EvaluatedCell,
    Evaluation,
    Score,
    TaskSummary,
)
from trio_profile.findings.blocks import Entry, Table
from trio_profile.quantities import entries
from trio_profile.quantities.entries import Tone
from trio_profile.records.estimate import Measured, Milliseconds, Tokens

_TONES: dict[str, Tone] = {"better": "gain", "worse": "loss"}
_NEAR = 0.0005
"""Two retentions closer than this are the same one."""


def rows_of(document: Evaluation) -> list[EvaluatedCell]:
    """Return the pruned rows as the paper orders them: the highest retention first, then by method."""
    methods = list(document.study.methods)

    def place(row: EvaluatedCell) -> tuple[float, int]:
        cell = row.cell
        assert cell is not None
        return -cell.retention, methods.index(cell.method) if cell.method in methods else len(methods)

    return sorted(document.cells, key=place)


def name_of(row: EvaluatedCell) -> str:
    """Return the name of a row: `trio at 11.1 %`."""
    return "dense" if row.cell is None else f"{row.cell.variant} at {units.percent(row.cell.retention)}"


def colour_of(document: Evaluation, row: EvaluatedCell) -> int | None:
    """Return the number of a method's colour: its place in the study."""
    methods = document.study.methods
    return methods.index(row.cell.method) if row.cell is not None and row.cell.method in methods else None


def score_table(document: Evaluation) -> Table:
    """A row for each cell, a column for each benchmark, and the average as a share of dense."""
    dense = document.dense
    averaged = any(row.average is not None for row in document.cells)
    columns = ("Method", "Retention", *(column.name for column in document.benchmarks), *["average"] * averaged)
    rows: list[list[Entry]] = []
    if dense is not None:
        rows.append([*_head(document, dense), *_values(document, dense), *[Entry(units.percent(1.0))] * averaged])
    rows += [[*_head(document, row), *_values(document, row), *_average(row)[:averaged]] for row in rows_of(document)]
    caption = "Scores, and their average as a share of dense" if averaged else "Scores"
    return Table(caption, columns, rows, keys=2)


def average_table(document: Evaluation) -> Table:
    """The average of each cell with its interval, beside the printed one and the speed-ups."""
    columns = ("Method", "Retention", "average", "95 % interval", "printed", "prefill", "total")
    rows = [
        [
            *_head(document, row),
            *_average(row),
            _share(_printed(document, row)),
            entries.speedup(row.prefill_speedup),
            entries.short_speedup(row.total_speedup),
        ]
        for row in rows_of(document)
        if row.average is not None
    ]
    return Table("Average and speed-up over dense", columns, rows, keys=2)


def cost_table(document: Evaluation) -> Table | None:
    """A row for each cell: work by the paper's formula, KV cache, and times. None if no question has a picture."""
    dense = document.dense
    if not any(row.prefill_ms is not None for row in document.cells):
        return None
    columns = ("Method", "Retention", "realised", "f(n)", "KV", "prefill", "total")
    rows = [_cost(document, row) for row in ([dense] if dense is not None else []) + rows_of(document)]
    caption = (
        f"Cost of a question with a picture. f(n) is the paper's formula with γ = {units.plain(document.study.gamma)}, "
        "in multiply-adds; the paper prints it as FLOPs"
    )
    return Table(caption, columns, rows, keys=2)


def task_table(document: Evaluation) -> Table:
    """Every score of every task, with its difference to dense."""
    columns = ("task", "metric", "Method", "Retention", "dense", "pruned", "difference")
    rows = [
        [Entry(task.task), Entry(metric_name(score)), *_head(document, row), *_score(score)]
        for row in rows_of(document) or ([document.dense] if document.dense is not None else [])
        for task in row.tasks
        for score in task.scores
    ]
    rows.sort(key=lambda row: (row[0].text, row[1].text))
    return Table("All metrics", columns, rows, keys=4, detail=len(document.cells) != 1)


def time_table(document: Evaluation) -> Table:
    """Each task's times and answers, row by row. Only questions with a picture count."""
    columns = ("task", "Method", "Retention", "questions", "realised", "same answer", "prefill", "total")
    rows = [
        [
            Entry(task.task),
            *_head(document, row),
            Entry(units.exact(task.questions)),
            _share(task.retention),
            entries.short_share(task.same_answer),
            entries.speedup(task.prefill_speedup),
            entries.speedup(task.total_speedup),
        ]
        for row, task in _timed(document)
    ]
    return Table("Speed-up by task, dense over pruned", columns, rows, keys=3, detail=len(document.cells) != 1)


def median_table(document: Evaluation) -> Table:
    """Each task's medians: tokens of an answer, prefill, first token and the whole answer."""
    columns = ("task", "Method", "Retention", "tokens of an answer", "prefill", "first token", "whole answer")
    rows = [
        [
            Entry(task.task),
            *_head(document, row),
            *map(_median, (task.tokens, task.prefill_ms, task.ttft_ms, task.total_ms)),
        ]
        for row, task in _timed(document, dense=True)
    ]
    return Table("Medians by task", columns, rows, keys=3, detail=True)


def refused_table(document: Evaluation) -> Table:
    """The cells that could not run, with the reason."""
    rows = [
        [Entry(one.cell.variant), Entry(units.percent(one.cell.retention)), Entry(one.reason)]
        for one in document.refused
    ]
    return Table("Left out", ("Method", "Retention", "reason"), rows, keys=2, prose=True)


def metric_name(score: Score) -> str:
    """Return lmms-eval's name of a score, with its filter if it has one."""
    return score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"


def _timed(document: Evaluation, *, dense: bool = False) -> Iterator[tuple[EvaluatedCell, TaskSummary]]:
    """Yield the tasks with pictures of each row. dense: the dense model's too."""
    first = [document.dense] if dense and document.dense is not None else []
    for row in [*first, *rows_of(document)]:
        for task in row.tasks:
            if task.prefill_ms is not None:
                yield row, task


def _head(document: Evaluation, row: EvaluatedCell) -> list[Entry]:
    """The entries that name a row."""
    if row.cell is None:
        return [Entry("dense"), Entry(units.percent(1.0), order=1.0)]
    name = Entry(row.cell.variant, colour=colour_of(document, row), title=row.remark)
    return [name, Entry(units.percent(row.cell.retention), order=row.cell.retention)]


def _values(document: Evaluation, row: EvaluatedCell) -> list[Entry]:
    """The scores of a row, in the order of the columns."""
    found = {score.benchmark: score for score in row.benchmarks}
    return [_benchmark(found.get(column.name), column) for column in document.benchmarks]


def _benchmark(score: BenchmarkScore | None, column: Benchmark) -> Entry:
    """One score. Its difference to dense is the tooltip, and its interval the colour."""
    if score is None:
        return entries.NOTHING
    title, largest = "", max(abs(score.value), abs(score.dense or 0.0), column.scale / 10)
    if score.difference is not None:
        title = f"{units.task_score_difference(score.difference, largest, score.ci95)} to dense"
    tone = _TONES.get(outcome(score.ci95, 0.0), "")
    return Entry(units.task_score(score.value, largest), title=title, tone=tone, order=score.value)


def _average(found: EvaluatedCell) -> list[Entry]:
    """An average share, and its interval."""
    if found.average is None:
        return [entries.NOTHING, entries.NOTHING]
    tone = _TONES.get(outcome(found.average_ci95, 1.0), "")
    average = Entry(units.percent(found.average), tone=tone, order=found.average)
    if found.average_ci95 is None:
        return [average, entries.NOTHING]
    _, bracket, bounds = units.percent_within(found.average, found.average_ci95).partition("[")
    return [average, Entry(f"{bracket}{bounds}")]


def _printed(document: Evaluation, row: EvaluatedCell) -> float | None:
    """The average that the suite's paper prints for a cell; None if it prints none."""
    cell = row.cell
    if cell is None or cell.options:
        return None
    near = (one for one in document.printed if abs(one.retention - cell.retention) < _NEAR)
    return next((one.average for one in near if one.method == cell.method), None)


def _share(value: float | None) -> Entry:
    return entries.NOTHING if value is None else Entry(units.percent(value), order=value)


def _cost(document: Evaluation, row: EvaluatedCell) -> list[Entry]:
    dense = document.dense
    work, cache = (None, None) if dense is None else (dense.fastv_macs, dense.kv_bytes)
    return [
        *_head(document, row),
        _share(row.retention),
        _amount(row.fastv_macs, work, lambda value: units.count_beside(value, work or value)),
        _amount(row.kv_bytes, cache, units.size),
        entries.milliseconds(row.prefill_ms),
        entries.milliseconds(row.total_ms),
    ]


def _amount(value: float | None, dense: float | None, text: Callable[[float], str]) -> Entry:
    """A mean count, with its share of dense as a tooltip."""
    if value is None:
        return entries.NOTHING
    return Entry(text(value), title=f"{units.percent(value / dense)} of dense" if dense else "", order=value)


def _score(score: Score) -> Sequence[Entry]:
    """The fields of one metric: dense, pruned and their difference."""
    dense = entries.NOTHING if score.dense is None else Entry(units.task_score(score.dense))
    difference = entries.NOTHING
    if score.difference is not None:
        said = outcome(score.ci95, 0.0)
        if score.higher_is_better is False:
            said = {"better": "worse", "worse": "better"}.get(said, said)
        tone = _TONES.get(said, "") if score.higher_is_better is not None else ""
        text = units.task_score_difference(score.difference, score.value, score.ci95)
        difference = Entry(text, tone=tone, order=score.difference)
    return [dense, Entry(units.task_score(score.value)), difference]


def _median(found: Measured | None) -> Entry:
    if isinstance(found, Tokens):
        return Entry(units.count(found.value), order=found.value)
    return entries.milliseconds(found if isinstance(found, Milliseconds) else None)
