"""The report of an evaluation: the scores of each cell beside the dense model's, and what the cells cost."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trio_profile import units
from trio_profile.analysis.ablate import PRINTED
from trio_profile.analysis.evaluation import (
    Benchmark,
    BenchmarkScore,
    EvaluatedCell,
    Evaluation,
    Score,
    TaskSummary,
)
from trio_profile.analysis.recommendation import CONTROL, MOST_LOST, POSSIBLE_LOSS, best_row, keeps_scores
from trio_profile.findings import pareto
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.recommendation import licence
from trio_profile.findings.study_page import notes, pixel_facts
from trio_profile.findings.table import Grid, Key, grid, table
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.records.estimate import Milliseconds, Tokens
from trio_profile.records.schema import Cell
from trio_profile.text import listed

_DENSE = Cell(method="dense", retention=1.0)
_NEAR = 0.0005
"""Two retentions closer than this are the same one."""


def report(document: Evaluation) -> Report:
    """The report of an evaluation."""
    study = document.study
    names = list(dict.fromkeys(row.cell.method for row in document.cells if row.cell is not None))
    facts = [document.environment.device_name, study.dtype]
    facts += [] if document.suite is None else [f"suite {document.suite}"]
    facts += [f"lmms-eval {document.lmms_eval}", *pixel_facts(study)]
    facts += (
        []
        if document.study.limit is None
        else [f"the first {units.number_of(document.study.limit, 'question')} of a task"]
    )
    return Report(
        subject=listed(names) if len(names) < 4 else f"{len(names)} methods",
        model=study.model,
        facts=facts,
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(),
    )


def variants_page(document: Evaluation) -> Page:
    """Each variant of a method beside the unchanged one. The page is empty for an evaluation without variants."""
    names: dict[int, tuple[str, str]] = {}
    rows: list[EvaluatedCell] = []
    for group, variants in document.study.ablations.items():
        for retention in sorted(set(document.study.retentions)):
            ran = [
                (name, row.model_copy())  # the default is a row of each group
                for name, options in variants.items()
                for row in document.cells
                if row.cell and row.cell.retention == retention and row.cell.options == options
            ]
            if len(ran) > 1:
                rows += [row for _, row in ran]
                names |= {id(row): (group, name) for name, row in ran}
    keys = [
        Key("ablation", lambda _, __, row: Entry(names[id(row)][0])),
        Key("variant", lambda _, __, row: Entry(names[id(row)][1], note="" if row.beside_default else "default")),
        "asked",
    ]
    columns = [
        *_score_columns(document),
        Column("average", lambda row, _: _share(row.average)),
        Column("of default", lambda row, _: _of_default(row)),
        Column("prefill", lambda row, _: entries.speedup(row.prefill_speedup)),
        Column("paper", lambda row, _: _printed_variant(*names[id(row)])),
        *(Column(f"{column.name} to default", _to_default(column.name)) for column in document.benchmarks),
    ]
    caption = (
        "Scores. “of default” is the mean of the variant's score over the default's. The paper's figures are for "
        "LLaVA-1.5-7B at 64 tokens: its average in per cent of dense, in layers its POPE score"
    )
    told = Sentences("", _different([(" ".join(names[id(row)]), row) for row in rows]))
    found = table(grid(document, rows), caption, columns, keys, in_sight="paper")
    return Page("ablations", "Variants beside the default", "", [told, found] if rows else [])


def scores_page(document: Evaluation) -> Page:
    """What the scores say, and the table of all cells and benchmarks."""
    rows = rows_of(document)
    blocks: list[Block] = [Sentences("", [*_recommended(rows)])]
    if document.benchmarks:
        blocks += [chart] if (chart := speed_and_average(document)) is not None else []
        blocks.append(score_table(document))
    if lines := [*_reminders(document, rows)]:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("scores", "Scores", "", [block for block in blocks if not isinstance(block, Sentences) or block.lines])


def tasks_page(document: Evaluation) -> Page:
    """Every metric of every task, and the times of each task."""
    first = [document.dense] if document.dense is not None else []
    rows = rows_of(document)
    task = Key("task", lambda _, __, row: Entry(row[1].task))
    metrics = [
        (row.cell or _DENSE, (row, one, score)) for row in rows or first for one in row.tasks for score in one.scores
    ]
    metrics.sort(key=lambda row: (row[1][1].task, metric_name(row[1][2])))
    timed = [
        (row.cell or _DENSE, (row, one)) for row in [*first, *rows] for one in row.tasks if one.prefill_ms is not None
    ]
    metric = Key("metric", lambda _, __, row: Entry(metric_name(row[2])))

    def cells(shown: Sequence[tuple[Any, Any]]) -> Grid:
        return Grid(shown, document.dense, document.study.methods, {})

    tables = [
        table(cells(metrics), "All metrics", _METRIC, [task, metric, "method", "asked"], detail=len(rows) != 1),
        table(cells(timed), "Times by task", _TIMES, [task, "method", "asked"], detail=True),
    ]
    how = "“same answer” is the share of questions to which the cell and the dense model give the same answer."
    return Page("tasks", "Task by task", how, [one for one in tables if one.rows], folded="Show every task")


def columns_page(document: Evaluation) -> Page:
    """What stands in each column, and how it was measured."""
    items = [(column.name, _column(column)) for column in document.benchmarks]
    return Page(
        "columns",
        "Columns",
        "Every score is the task's own, as lmms-eval computes it. All cells and the dense model answer the same "
        "questions, in an order that is drawn anew for each. The average is the mean over the benchmarks of score / "
        "dense. Intervals are for 95 %, from resampled pictures. f(n) is the paper's formula with γ = "
        f"{units.plain(document.study.gamma)}. Work and bytes are means, times are medians, over the questions with a "
        "picture; “total” is the whole answer, which may have another length than dense's.",
        [Terms("", items, detail=True)] if items else [],
        folded="Show what the columns mean",
    )


def refused_page(document: Evaluation) -> Page:
    """The cells that could not run, with the reason."""
    rows = [
        [Entry(one.cell.variant), Entry(units.percent(one.cell.retention)), Entry(one.reason)]
        for one in document.refused
    ]
    left_out = Table("Left out", ("Method", "Retention", "reason"), rows, keys=2, prose=True)
    return Page("refused", "What could not run", "", [left_out] if rows else [])


def rows_of(document: Evaluation) -> list[EvaluatedCell]:
    """Return the pruned rows as the paper orders them: the highest retention first, then by method."""
    methods = list(document.study.methods)
    rows = [(row.cell, row) for row in document.cells if row.cell is not None]
    rows.sort(key=lambda pair: (-pair[0].retention, methods.index(pair[0].method) if pair[0].method in methods else 99))
    return [row for _, row in rows]


def name_of(row: EvaluatedCell) -> str:
    """Return the name of a row: `trio at 11.1 %`."""
    return "dense" if row.cell is None else f"{row.cell.variant} at {units.percent(row.cell.retention)}"


def metric_name(score: Score) -> str:
    """Return lmms-eval's name of a score, with its filter if it has one."""
    return score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"


def speed_and_average(document: Evaluation) -> Chart | None:
    """Prefill speed-up against the average as a share of dense. None if fewer than two rows have both."""
    points = [
        pareto.Point(
            row.cell.method,
            units.percent(row.cell.retention),
            row.prefill_speedup,
            100 * row.average,
            None if row.average_ci95 is None else (100 * row.average_ci95[0], 100 * row.average_ci95[1]),
            _described(row).replace(": ", "\n").replace(", ", "\n"),
            row.remark == CONTROL,
        )
        for row in rows_of(document)
        if row.cell is not None and row.prefill_speedup is not None and row.average is not None
    ]
    axis = Axis("Average, share of dense", suffix=" %", digits=1)
    if len(points) < 2:
        return None
    found = pareto.drawn("average", "Speed and average score", "the average", points, document.study.methods, axis)
    return found and replace(found, levels=[100])


def score_table(document: Evaluation) -> Table:
    """A row for each cell: each benchmark, the average as a share of dense, speed-ups, and what the cell costs."""
    dense = document.dense
    columns = _score_columns(document)
    if any(row.average is not None for row in document.cells):
        columns += [
            Column("average", lambda row, _: _average(row), of_dense=lambda _: Entry(units.percent(1.0), order=1.0)),
            Column("printed", lambda row, _: _share(_printed(document, row))),
        ]
    work, cache = (None, None) if dense is None else (dense.fastv_macs, dense.kv_bytes)

    def same(name: str, entry: Callable[[Any], Entry]) -> Column:
        return Column(name, lambda row, _: entry(row), of_dense=entry)

    columns += [
        Column("prefill", lambda row, _: entries.speedup(row.prefill_speedup)),
        Column("total", lambda row, _: entries.speedup(row.total_speedup)),
        same("realised", lambda row: _share(row.retention)),
        same("f(n)", lambda row: _amount(row.fastv_macs, work, lambda value: units.count_beside(value, work or value))),
        same("KV", lambda row: _amount(row.kv_bytes, cache, units.size)),
        same("prefill time", lambda row: entries.milliseconds(row.prefill_ms)),
        same("total time", lambda row: entries.milliseconds(row.total_ms)),
    ]
    timed = any(row.prefill_ms is not None for row in document.cells)
    in_sight = "total" if timed else ""
    caption = "Scores, their average as a share of dense, and speed-up over dense"
    return table(
        grid(document, rows_of(document)), caption, columns, ["method", "asked"], in_sight=in_sight, with_dense=True
    )


# Sentences


def _recommended(rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """What to use, and how sure that is."""
    pick = best_row(rows)
    if pick is None:
        judged = [row for row in rows if row.prefill_speedup and row.average_ci95 and row.remark != CONTROL]
        yield from ["No method is measurably faster than dense in prefill."] if judged else []
    elif keeps_scores(pick):
        yield f"Use {_described(pick)}."
        if pick.average_ci95 and (may_lose := 1 - pick.average_ci95[0]) > POSSIBLE_LOSS[0]:
            yield f"This is uncertain: it may lose up to {units.percent(may_lose)}. Ask more questions."
    else:
        most = units.percent(MOST_LOST)
        yield f"No cell is faster and loses at most {most} on average. The one that loses least is {_described(pick)}."


def _reminders(document: Evaluation, rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """What is missing, and what weakens the findings."""
    tasks = rows[0].tasks if rows else ()
    if not rows:
        yield "No cell has answered."
    if without := [task.task for task in tasks if task.questions and task.prefill_ms is None]:
        yield f"{listed(without)}: no question has a picture, so every row has the dense model's answers."
    known = {column.task for column in document.benchmarks}
    if without := [
        task.task for task in tasks if task.scores and task.task in document.study.tasks and task.task not in known
    ]:
        yield f"No column and no part in the average: {listed(without)}. “Task by task” has the scores."
    if document.dense is None:
        yield "The dense model was not asked, so there is nothing to compare with."
    elif names := [score.benchmark for score in document.dense.benchmarks if score.value <= 0]:
        yield f"The dense model scores nothing in {listed(names)}, so there is no average as a share of dense."
    scores = [score for row in rows for score in row.benchmarks]
    chance = {score.benchmark for score in scores if score.difference is not None and score.ci95 is None}
    if names := [column.name for column in document.benchmarks if column.name in chance]:
        average = ", and the average has none either" if len(document.benchmarks) > 1 else ""
        yield f"{listed(names)}: the difference has no interval, so it may be chance{average}."
    yield from notes((name_of(row), row.notes) for row in document.cells)


def _described(row: EvaluatedCell) -> str:
    """A row with its average and its speed-up, and what must be known of its method."""
    parts: list[str] = []
    if row.average is not None:
        ends = row.average_ci95
        kept = units.percent(row.average) if ends is None else units.percent_within(row.average, ends)
        parts.append(f"average {kept} of dense")
    if row.prefill_speedup is not None:
        parts.append(f"prefill {units.times_within(row.prefill_speedup.value, row.prefill_speedup.ci95)}")
    return f"{name_of(row)}{licence(row.remark)}: {', '.join(parts)}"


def _different(rows: Sequence[tuple[str, EvaluatedCell]]) -> list[str]:
    """Which variants differ measurably from the default. rows: each with its name."""
    judged = [(name, row, found.average_ci95) for name, row in rows if (found := row.beside_default)]
    known = [(name, row, ends) for name, row, ends in judged if ends is not None]
    apart = [
        f"{name} at {units.percent(row.cell.retention if row.cell else 1)} ({'better' if ends[0] > 1 else 'worse'})"
        for name, row, ends in known
        if not ends[0] <= 1 <= ends[1]
    ]
    if apart:
        return [f"Measurably different from the default: {listed(apart)}."]
    return [f"No measurable difference from the default in {units.number_of(len(known), 'variant')}."] if known else []


# Entries


def _score_columns(document: Evaluation) -> list[Column]:
    """A column for each benchmark."""

    def column(benchmark: Benchmark) -> Column:
        def entry(row: EvaluatedCell) -> Entry:
            return _score(next((one for one in row.benchmarks if one.benchmark == benchmark.name), None), benchmark)

        return Column(benchmark.name, lambda row, _: entry(row), of_dense=entry)

    return [column(benchmark) for benchmark in document.benchmarks]


def _score(score: BenchmarkScore | None, column: Benchmark) -> Entry:
    """One score. Its difference to dense is the tooltip, and its interval the colour."""
    if score is None:
        return NOTHING
    title, largest = "", max(abs(score.value), abs(score.dense or 0.0), column.scale / 10)
    if score.difference is not None:
        title = f"{units.task_score_difference(score.difference, largest, score.ci95)} to dense"
    tone = entries.tone(score.ci95, 0) if score.ci95 else ""
    return Entry(units.task_score(score.value, largest), title=title, tone=tone, order=score.value)


def _average(row: EvaluatedCell) -> Entry:
    """An average share, and its interval."""
    if row.average is None or row.average_ci95 is None:
        return _share(row.average)
    _, bracket, bounds = units.percent_within(row.average, row.average_ci95).partition("[")
    tone = entries.tone(row.average_ci95, 1)
    return Entry(units.percent(row.average), f"{bracket}{bounds}", tone=tone, order=row.average)


def _printed(document: Evaluation, row: EvaluatedCell) -> float | None:
    """The average that the suite's paper prints for a cell; None if it prints none."""
    cell = row.cell
    if cell is None or cell.options:
        return None
    near = (one for one in document.printed if abs(one.retention - cell.retention) < _NEAR)
    return next((one.average for one in near if one.method == cell.method), None)


def _share(value: float | None) -> Entry:
    return NOTHING if value is None else Entry(units.percent(value), order=value)


def _amount(value: float | None, dense: float | None, text: Callable[[float], str]) -> Entry:
    """A mean count, with its share of dense as a tooltip."""
    if value is None:
        return NOTHING
    return Entry(text(value), title=f"{units.percent(value / dense)} of dense" if dense else "", order=value)


def _difference(score: Score) -> Entry:
    """How a metric differs from dense."""
    if score.difference is None:
        return NOTHING
    low, high = score.ci95 or (0.0, 0.0)
    bounds = (low, high) if score.higher_is_better else (-high, -low)
    tone = "" if score.higher_is_better is None else entries.tone(bounds, 0)
    text = units.task_score_difference(score.difference, score.value, score.ci95)
    return Entry(text, tone=tone, order=score.difference)


def _median(found: Milliseconds | Tokens | None) -> Entry:
    if isinstance(found, Tokens):
        return Entry(units.count(found.value), order=found.value)
    return entries.milliseconds(found)


def _column(column: Benchmark) -> str:
    names = [key.removesuffix(",none").replace(",", ", filter ") for key in column.metrics]
    scale = "" if column.scale == 1 else f" × {units.plain(column.scale)}"
    task = "" if column.task == column.name else f"{column.task}: "
    paper = f" The paper: {column.printed}." if column.printed and column.printed != column.name else ""
    return f"{task}{' + '.join(names)}{scale}.{paper} {column.differs}".strip()


_METRIC = (
    Column("dense", lambda row, _: NOTHING if row[2].dense is None else Entry(units.task_score(row[2].dense))),
    Column("pruned", lambda row, _: Entry(units.task_score(row[2].value))),
    Column("difference", lambda row, _: _difference(row[2])),
)


def _of_task(name: str, value: Callable[[TaskSummary], Entry]) -> Column:
    return Column(name, lambda row, _: value(row[1]))


_TIMES = (
    _of_task("questions", lambda task: Entry(units.exact(task.questions))),
    _of_task("realised", lambda task: _share(task.retention)),
    _of_task("same answer", lambda task: entries.short_share(task.same_answer)),
    _of_task("prefill", lambda task: entries.speedup(task.prefill_speedup)),
    _of_task("total", lambda task: entries.speedup(task.total_speedup)),
    _of_task("tokens of an answer", lambda task: _median(task.tokens)),
    _of_task("prefill time", lambda task: _median(task.prefill_ms)),
    _of_task("first token", lambda task: _median(task.ttft_ms)),
    _of_task("whole answer", lambda task: _median(task.total_ms)),
)

# Variants


def _of_default(row: EvaluatedCell) -> Entry:
    """What a variant keeps of the default's scores."""
    found = row.beside_default
    if found is None or found.average is None or found.average_ci95 is None:
        return _share(None if found is None else found.average)
    text = units.percent_within(found.average, found.average_ci95)
    return Entry(text, tone=entries.tone(found.average_ci95, 1), order=found.average)


def _to_default(benchmark: str) -> Callable[..., Entry]:
    """The difference of a variant's score to the default's."""

    def entry(row: Any, _: Any) -> Entry:
        found = row.beside_default
        score = next((one for one in found.benchmarks if one.benchmark == benchmark), None) if found else None
        if score is None or score.difference is None:
            return NOTHING
        tone = "" if score.ci95 is None else entries.tone(score.ci95, 0)
        text = units.task_score_difference(score.difference, score.value, score.ci95)
        return Entry(text, tone=tone, order=score.difference)

    return entry


def _printed_variant(group: str, name: str) -> Entry:
    printed = PRINTED.get(group, {})
    return Entry(units.score(printed[name])) if name in printed else NOTHING


PAGES: tuple[Callable[[Evaluation], Page], ...] = (
    variants_page,
    scores_page,
    refused_page,
    tasks_page,
    columns_page,
)
