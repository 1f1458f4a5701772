"""The report of an evaluation: the scores of each cell beside the dense model's, and what the cells cost."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.eval_verdict import Outcome, average_outcome, outcome, verdict
from trio_profile.analysis.evaluation import Benchmark, EvaluatedCell, Evaluation
from trio_profile.analysis.recommendation import CONTROL, MOST_LOST, POSSIBLE_LOSS
from trio_profile.findings import eval_charts, eval_tables
from trio_profile.findings.blocks import Block, Page, Report, Sentences, Terms
from trio_profile.findings.cells import notes
from trio_profile.findings.eval_ablation import ablation_page
from trio_profile.findings.eval_tables import name_of, rows_of
from trio_profile.findings.study_page import pixel_facts
from trio_profile.text import listed

_SAID: dict[Outcome, str] = {
    "worse": "Worse than dense",
    "same": "Not measurably different from dense",
    "better": "Better than dense",
}
_FEW = 6
"""Up to so many cells, a sentence says for each what its benchmarks show."""


def report(document: Evaluation) -> Report:
    """The report of an evaluation."""
    study = document.study
    names = list(dict.fromkeys(row.cell.method for row in document.cells if row.cell is not None))
    suite = [] if document.suite is None else [f"suite {document.suite}"]
    limited = [] if document.limit is None else [f"the first {units.number_of(document.limit, 'question')} of a task"]
    return Report(
        subject=listed(names) if len(names) < 4 else f"{len(names)} methods",
        model=study.model,
        facts=[
            document.environment.device_name,
            study.dtype,
            *suite,
            f"lmms-eval {document.lmms_eval}",
            *pixel_facts(study),
            *limited,
        ],
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(),
    )


def scores_page(document: Evaluation) -> Page:
    """What the scores say, and the table of all cells and benchmarks."""
    blocks: list[Block] = [Sentences("", list(_sentences(document)))]
    if document.benchmarks:
        averages = eval_tables.average_table(document)
        charts = (eval_charts.speed_and_average(document), eval_charts.differences(document))
        blocks += [eval_tables.score_table(document), *([averages] if averages.rows else [])]
        blocks += [*(chart for chart in charts if chart is not None), _columns(document)]
    return Page(
        "scores",
        "Scores",
        "Every score is the task's own, as lmms-eval computes it. All cells and the dense model answer the same "
        "questions, so a difference is paired. The average is the mean over the benchmarks of score / dense. Intervals "
        "are for 95 %, from resampled pictures: questions about one picture are drawn together. A score has one if it "
        "is known how each question moves it. A cell is on the Pareto front, and its point is filled, if no other cell "
        "is both faster and better.",
        blocks,
    )


def cost_page(document: Evaluation) -> Page:
    """What the cells cost."""
    table = eval_tables.cost_table(document)
    reminders = notes((name_of(row), row.notes) for row in document.cells)
    return Page(
        "cost",
        "Cost of the same answers",
        "A question counts here if it has a picture. All cells and the dense model answer it one after the other, in "
        "an order that is drawn anew for each question. Work and bytes are means over the questions. Times are "
        "medians, and a speed-up is the median of paired ratios. “total” is the time of the whole answer. A longer "
        "answer takes more time, so two totals may belong to answers of different length.",
        [
            *([] if table is None else [table]),
            *([Sentences("Keep in mind", reminders, tone="doubt")] if reminders else []),
        ],
    )


def tasks_page(document: Evaluation) -> Page:
    """Every metric of every task, and the times of each task."""
    tables = (
        eval_tables.task_table(document),
        eval_tables.time_table(document),
        eval_tables.median_table(document),
    )
    return Page(
        "tasks",
        "Task by task",
        "The scores stand as lmms-eval prints them. “same answer” is the share of questions to which the cell and the "
        "dense model give the same answer, word for word.",
        [table for table in tables if table.rows],
    )


def refused_page(document: Evaluation) -> Page:
    """The cells that could not run."""
    table = eval_tables.refused_table(document)
    return Page("refused", "What could not run", "", [table] if table.rows else [])


def _sentences(document: Evaluation) -> Iterator[str]:
    rows = rows_of(document)
    yield from _without_picture(rows)
    yield from _without_column(document, rows)
    if not rows:
        yield "No cell has answered."
    elif all(task.prefill_ms is None for task in rows[0].tasks):
        return
    elif document.dense is None:
        yield "The dense model was not asked, so there is nothing to compare with."
    else:
        yield from _without_share(document.dense)
        yield from _recommended(rows)
        yield from _outcomes(rows)
        yield from _without_interval(document, rows)
        if len(rows) <= _FEW:
            yield from (line for row in rows if (line := _by_benchmark(row)))


def _without_picture(rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """Which tasks show no picture. Nothing is pruned there, so their scores say nothing about a method."""
    tasks = [task.task for task in rows[0].tasks if task.questions and task.prefill_ms is None] if rows else []
    if tasks:
        yield f"{listed(tasks)}: no question has a picture, so every row has the dense model's answers."


def _without_column(document: Evaluation, rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """Which tasks have scores but no column: lmms-eval reports none that a column could have."""
    known = {column.task for column in document.benchmarks}
    tasks = [task.task for task in rows[0].tasks if task.scores and task.task in document.asked] if rows else []
    if without := [task for task in tasks if task not in known]:
        yield f"No column and no part in the average: {listed(without)}. “Task by task” has the scores."


def _without_share(dense: EvaluatedCell) -> Iterator[str]:
    """Where the dense model scores nothing. Then no share of dense exists, and no average."""
    if names := [score.benchmark for score in dense.benchmarks if score.value <= 0]:
        yield f"The dense model scores nothing in {listed(names)}, so there is no average as a share of dense."


def _recommended(rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """What to use, and which rows no other row beats."""
    found = verdict(rows)
    pick = found.pick
    if pick is not None and found.keeps:
        yield f"Use {_described(pick)}."
        if found.may_lose > POSSIBLE_LOSS[0]:
            yield f"This is uncertain: it may lose up to {units.percent(found.may_lose)}. Ask more questions."
    elif pick is not None:
        most = units.percent(MOST_LOST)
        yield f"No cell is faster and loses at most {most} on average. The one that loses least is {_described(pick)}."
    elif any(
        row.prefill_speedup is not None and row.average_ci95 is not None and row.remark != CONTROL for row in rows
    ):
        yield "No method is measurably faster than dense in prefill."
    if len(found.best) < len(rows) and found.best:
        names = listed([name_of(row) for row in found.best])
        yield f"On the Pareto front of prefill speed-up and average: {names}."


def _described(row: EvaluatedCell) -> str:
    """A row with its average and its speed-up."""
    parts: list[str] = []
    if row.average is not None and row.average_ci95 is not None:
        parts.append(f"average {units.percent_within(row.average, row.average_ci95)} of dense")
    if row.prefill_speedup is not None:
        parts.append(f"prefill {units.times_within(row.prefill_speedup.value, row.prefill_speedup.ci95)}")
    return f"{name_of(row)}: {', '.join(parts)}"


def _outcomes(rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """What the intervals of the averages say, if there are several rows and they differ in it."""
    for said, text in _SAID.items():
        names = [name_of(row) for row in rows if average_outcome(row) == said]
        some = listed(names) if len(names) <= _FEW else f"{len(names)} of {len(rows)} cells"
        if names and len(rows) > 1 and not (said == "worse" and len(names) == len(rows)):
            yield f"{text} on average: {some}."


def _without_interval(document: Evaluation, rows: Sequence[EvaluatedCell]) -> Iterator[str]:
    """Which benchmarks have no interval, so that their difference may be chance."""
    scores = [score for row in rows for score in row.benchmarks]
    without = {score.benchmark for score in scores if score.difference is not None and score.ci95 is None}
    names = [column.name for column in document.benchmarks if column.name in without]
    if names:
        average = ", and the average has none either" if len(document.benchmarks) > 1 else ""
        yield f"{listed(names)}: the difference has no interval, so it may be chance{average}."


def _by_benchmark(row: EvaluatedCell) -> str:
    """What the benchmarks of one row show; empty if none has an interval."""
    judged = [
        (text, [score.benchmark for score in row.benchmarks if outcome(score.ci95, 0.0) == said])
        for said, text in _SAID.items()
    ]
    parts = [f"{text[0].lower()}{text[1:]} in {listed(names)}" for text, names in judged if names]
    return f"{name_of(row)}: {'; '.join(parts)}." if parts else ""


def _columns(document: Evaluation) -> Terms:
    """What stands in each column."""
    items = [(column.name, _column(column)) for column in document.benchmarks]
    if any(row.average is not None for row in document.cells):
        items.append(("average", "the mean over the benchmarks of score / dense."))
    if document.printed:
        items.append(("printed", "the average that the suite's paper prints."))
    return Terms("Columns", items)


def _column(column: Benchmark) -> str:
    names = [key.removesuffix(",none").replace(",", ", filter ") for key in column.metrics]
    scale = "" if column.scale == 1 else f" × {units.plain(column.scale)}"
    task = "" if column.task == column.name else f"{column.task}: "
    paper = f" The paper: {column.printed}." if column.printed and column.printed != column.name else ""
    return f"{task}{' + '.join(names)}{scale}.{paper} {column.differs}".strip()


PAGES: tuple[Callable[[Evaluation], Page], ...] = (ablation_page, scores_page, cost_page, tasks_page, refused_page)
