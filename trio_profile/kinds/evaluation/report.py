"""The report of an evaluation: the scores of each cell beside the dense model's, and what the cells cost."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trio_profile import units
from trio_profile.cost.printed import ABLATIONS
from trio_profile.kinds.evaluation.document import Benchmark, EvaluatedCell, Evaluation, Score, dense_zeros
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING
from trio_profile.quantities.quantity import Column
from trio_profile.records.estimate import Interval
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table, Terms, tabulate
from trio_profile.report.page import notes, pixel_facts
from trio_profile.report.table import Key, grid, table
from trio_profile.text import listed

_NEAR = 0.0005
"""Two retentions closer than this are the same one."""


def report(document: Evaluation) -> Report:
    """The report of an evaluation."""
    study = document.study
    names = list(dict.fromkeys(row.cell.method for row in document.cells if row.cell is not None))
    facts = [document.environment.device_name, study.dtype]
    facts += [] if document.suite is None else [f"suite {document.suite}"]
    facts += [f"lmms-eval {document.lmms_eval}", *pixel_facts(study)]
    if (limit := study.limit) is not None:
        facts.append(f"the first {units.number_of(limit, 'question')} of a task")
    pages = [variants_page(document), scores_page(document), tasks_page(document), columns_page(document)]
    return Report(
        subject=listed(names) if len(names) < 4 else f"{len(names)} methods",
        model=study.model,
        facts=facts,
        pages=[page for page in pages if page.blocks],
        data=document.model_dump_json(),
    )


def variants_page(document: Evaluation) -> Page:
    """Each variant of a method beside the unchanged one. The page is empty for an evaluation without variants."""
    rows: list[Any] = []
    for group, variants in document.study.ablations.items():
        for retention in sorted(set(document.study.retentions)):
            measured = [
                row.model_copy(update={"ablation": group, "variant": name})  # the default is a row of each group
                for name, options in variants.items()
                for row in document.cells
                if row.cell and row.cell.retention == retention and row.cell.options == options
            ]
            rows += measured if len(measured) > 1 else []
    keys = [
        Key("ablation", lambda _, row: Entry(row.ablation)),
        Key("variant", lambda _, row: Entry(row.variant, note="" if row.beside_default else "default")),
        "asked",
    ]
    columns = [
        *map(_score_column, document.benchmarks),
        Column("average", lambda row, _: _share(row.average)),
        Column("of default", lambda row, _: _average(row.beside_default)),
        "prefill",
        Column("paper", lambda row, _: _printed_variant(row.ablation, row.variant)),
        *map(_to_default, document.benchmarks),
    ]
    caption = (
        "Scores. “of default” is the mean of the variant's score over the default's. The paper's figures are for "
        "LLaVA-1.5-7B at 64 tokens: its average in per cent of dense, in layers its POPE score"
    )
    variants = table(grid(document, rows), caption, columns, keys, in_sight="paper")
    blocks = [Sentences("", [_different(rows)]), variants] if rows else []
    return Page("ablations", "Variants beside the default", "", blocks)


def scores_page(document: Evaluation) -> Page:
    """The table of all cells and benchmarks."""
    rows = rows_of(document)
    blocks: list[Block] = []
    if document.benchmarks:
        blocks.append(score_table(document))
    if lines := [*_reminders(document, rows)]:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("scores", "Scores", "", blocks)


def tasks_page(document: Evaluation) -> Page:
    """Every metric of every task."""
    rows = rows_of(document) or ([document.dense] if document.dense is not None else [])
    scores = [(row, task.task, score) for row in rows for task in row.tasks for score in task.scores]
    scores.sort(key=lambda item: (item[1], metric_name(item[2])))
    columns: dict[str, Callable[[tuple[EvaluatedCell, str, Score]], Entry]] = {
        "task": lambda item: Entry(item[1]),
        "metric": lambda item: Entry(metric_name(item[2])),
        "cell": lambda item: Entry(name_of(item[0])),
        "dense": lambda item: NOTHING if item[2].dense is None else Entry(units.task_score(item[2].dense)),
        "pruned": lambda item: Entry(units.task_score(item[2].value)),
        "difference": lambda item: _difference(item[2]),
    }
    metrics = tabulate("All metrics", columns, scores, keys=3, detail=len(rows) != 1)
    return Page("tasks", "Task by task", "", [metrics] if scores else [], folded="Show every task")


def columns_page(document: Evaluation) -> Page:
    """The meaning of each column, and how it was measured."""
    items = [(column.name, _column(column)) for column in document.benchmarks]
    return Page(
        "columns",
        "Columns",
        "Every score is the task's own, as lmms-eval computes it. All cells and the dense model answer the same "
        "questions, in an order that is drawn anew for each. The average is the mean over the benchmarks of score / "
        "dense. Intervals are for 95 %, from resampled pictures. f(n), the paper's formula with γ = "
        f"{units.plain(document.study.gamma)}, and KV, the bytes of the cache, are means as shares of dense. Times are "
        "medians over the questions with a picture; “total” is the whole answer, which may have another length than "
        "dense's.",
        [Terms("", items, detail=True)] if items else [],
        folded="Show what the columns mean",
    )


def rows_of(document: Evaluation) -> list[EvaluatedCell]:
    """Return the pruned rows as the paper orders them: the highest retention first, then in the study's order."""
    return sorted(document.cells, key=lambda row: -row.cell.retention if row.cell else -1.0)


def name_of(row: EvaluatedCell) -> str:
    """Return the name of a row: `trio at 11.1 %`."""
    return "dense" if row.cell is None else f"{row.cell.variant} at {units.percent(row.cell.retention)}"


def metric_name(score: Score) -> str:
    """Return lmms-eval's name of a score, with its filter if it has one."""
    return score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"


def score_table(document: Evaluation) -> Table:
    """A row for each cell: each benchmark, the average as a share of dense, speed-ups, and what the cell costs."""
    averages: list[Column] = []
    if any(row.average is not None for row in document.cells):
        averages = [
            _same("average", lambda row: _share(1.0) if row.cell is None else _average(row)),
            Column("printed", lambda row, _: _share(_printed(document, row))),
        ]
    columns: list[str | Column] = [
        "prefill",
        *averages[:1],
        "KV",
        *map(_score_column, document.benchmarks),
        *averages[1:],
        "total",
        _same("realised", lambda row: _share(row.retention)),
        "f(n)",
        _same("prefill time", lambda row: entries.milliseconds(row.prefill_ms)),
        _same("total time", lambda row: entries.milliseconds(row.total_ms)),
    ]
    timed = any(row.prefill_ms is not None for row in document.cells)
    in_sight = "total" if timed else ""
    caption = "Scores, their average as a share of dense, and speed-up over dense"
    return table(
        grid(document, rows_of(document)),
        caption,
        columns,
        ["method", "asked"],
        in_sight=in_sight,
        with_dense=True,
        order="Sorted by retention, the highest first, then as the methods were asked.",
        drawn={"prefill": 1.0, "average": 1.0},
    )


# Sentences


def _reminders(document: Evaluation, rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """The things that are missing, and that weaken the findings."""
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
    if zeros := dense_zeros(document):
        yield f"The dense model scores nothing in {listed(zeros)}, so there is no average as a share of dense."
    scores = [score for row in rows for score in row.benchmarks]
    chance = {score.benchmark for score in scores if score.difference is not None and score.ci95 is None}
    if names := [column.name for column in document.benchmarks if column.name in chance]:
        average = ", and the average has none either" if len(document.benchmarks) > 1 else ""
        yield f"{listed(names)}: the difference has no interval, so it may be chance{average}."
    yield from notes((name_of(row), row.notes) for row in document.cells)
    for refusal in document.refused:
        yield f"{refusal.cell.variant} at {units.percent(refusal.cell.retention)} could not run: {refusal.reason}."


def _different(rows: Sequence[Any]) -> str:
    """Which variants differ measurably from the default. rows: as in the table of variants."""
    known = [(row, interval) for row in rows if row.beside_default and (interval := row.beside_default.average_ci95)]
    apart = [
        f"{row.ablation} {row.variant} at {units.percent(row.cell.retention)} "
        f"({'better' if interval[0] > 1 else 'worse'})"
        for row, interval in known
        if entries.tone(interval, 1)
    ]
    variants = units.number_of(len(known), "variant")
    count = f"{len(apart) or 'none'} differ{'s' if len(apart) == 1 else ''} measurably from the default"
    return f"Of {variants} with an interval, {count}{': ' if apart else ''}{'; '.join(apart)}."


# Columns and entries


def _same(name: str, entry: Callable[[Any], Entry]) -> Column:
    """A column that shows the same of a cell and of the dense model."""
    return Column(name, lambda row, _: entry(row), of_dense=entry)


def _score_column(benchmark: Benchmark) -> Column:
    """The score in one benchmark. Its difference to dense is the tooltip, and its interval the colour."""

    def entry(row: EvaluatedCell) -> Entry:
        score = row.score_in(benchmark)
        if score is None:
            return NOTHING
        largest = max(abs(score.value), abs(score.dense or 0.0), benchmark.scale / 10)
        to_dense = _signed(score.difference, largest, score.ci95)
        title = f"{to_dense.text} to dense" if score.difference is not None else ""
        return Entry(units.task_score(score.value, largest), title=title, tone=to_dense.tone, order=score.value)

    return _same(benchmark.name, entry)


def _to_default(benchmark: Benchmark) -> Column:
    """The difference of a variant's score to the default's."""

    def entry(row: EvaluatedCell, _: Any) -> Entry:
        score = row.beside_default and row.beside_default.score_in(benchmark)
        return _signed(score.difference, score.value, score.ci95) if score else NOTHING

    return Column(f"{benchmark.name} to default", entry)


def _signed(difference: float | None, score: float, interval: Interval | None) -> Entry:
    """A difference of two scores, with its interval. score: one of the two."""
    if difference is None:
        return NOTHING
    text = units.task_score_difference(difference, score, interval)
    return Entry(text, tone=entries.tone(interval, 0) if interval else "", order=difference)


def _difference(score: Score) -> Entry:
    """How a metric differs from dense. Its colour is that of a gain only if the task says which direction is one."""
    entry = _signed(score.difference, score.value, score.ci95)
    if score.higher_is_better is None or entry.tone == "":
        return replace(entry, tone="")
    return replace(entry, tone="gain" if (entry.tone == "gain") == score.higher_is_better else "loss")


def _average(row: Any) -> Entry:
    """An average share, with its interval if it has one. row: a record with `average` and `average_ci95`, or None."""
    if row is None or row.average is None or row.average_ci95 is None:
        return _share(row and row.average)
    _, bracket, bounds = units.percent_within(row.average, row.average_ci95).partition("[")
    tone = entries.tone(row.average_ci95, 1)
    return Entry(
        units.percent(row.average), f"{bracket}{bounds}", tone=tone, order=row.average, bounds=row.average_ci95
    )


def _printed(document: Evaluation, row: EvaluatedCell) -> float | None:
    """The average that the suite's paper prints for a cell; None if it prints none."""
    cell = row.cell
    if cell is None or cell.options:
        return None
    near = (figure for figure in document.printed if abs(figure.retention - cell.retention) < _NEAR)
    return next((figure.average for figure in near if figure.method == cell.method), None)


def _share(value: float | None) -> Entry:
    return NOTHING if value is None else Entry(units.percent(value), order=value)


def _column(column: Benchmark) -> str:
    names = [key.removesuffix(",none").replace(",", ", filter ") for key in column.metrics]
    scale = "" if column.scale == 1 else f" × {units.plain(column.scale)}"
    task = "" if column.task == column.name else f"{column.task}: "
    paper = f" The paper: {column.printed}." if column.printed and column.printed != column.name else ""
    return f"{task}{' + '.join(names)}{scale}.{paper} {column.differs}".strip()


def _printed_variant(group: str, name: str) -> Entry:
    printed = ABLATIONS.get(group, {})
    return Entry(units.score(printed[name])) if name in printed else NOTHING
