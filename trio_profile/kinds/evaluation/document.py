"""The document of `trio-profile eval`: scores, work, cache and times of each cell beside the dense model.

Also what follows from it: the conclusion, and the rows for spreadsheets and data frames.
"""

from trio_profile.judge.controls import CONTROL, licence
from trio_profile.judge.deploy import Candidate, Words, decide
from trio_profile.judge.doubts import cell_name
from trio_profile.judge.evidence import Evidence, random_weights
from trio_profile.judge.planned import Refusal
from trio_profile.judge.sureness import ONE_PROCESS, Weakness
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Milliseconds, Ratio, Share, Tokens
from trio_profile.records.schema import Cell, Record, first_command
from trio_profile.stats.intervals import joint, most_lost, widened
from trio_profile.study.table_rows import Flat, filled, flat, of_study, text_of
from trio_profile.text import listed, with_option


class Benchmark(Record):
    """One column of the table: a task, and the metrics that make its score.

    name: the head of the column.
    task: lmms-eval's name of the task.
    metrics: lmms-eval's names of the metrics, `metric,filter`. The score is their sum (MME adds two).
    scale: the score is the sum times this: 100 makes per cent.
    printed: what the paper calls the benchmark; empty outside a suite.
    differs: how the task differs from the paper's protocol; empty if it does not, and outside a suite.
    """

    name: str
    task: str
    metrics: tuple[str, ...]
    scale: float = 1.0
    printed: str = ""
    differs: str = ""


class Score(Record):
    """One metric of a task.

    metric, filter: lmms-eval's names.
    higher_is_better: None if the task does not say.
    value, dense: the scores of the cell and of the dense model.
    difference: value minus dense, over the same questions.
    ci95: interval of the difference; None if the rule of the score is not known (kinds/evaluation/question_scores.py).
    """

    metric: str
    filter: str
    higher_is_better: bool | None
    value: float
    dense: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None


class Costs(Record):
    """The cost of the answers to questions with a picture.

    retention: realised retention, the mean over the questions; 1 for the dense model.
    fastv_macs, kv_bytes: means over the questions.
    prefill_ms: median, as in `records.schema.Pair`.
    total_ms: median of the whole call of `generate`. It depends on the number of tokens.
    *_speedup: median of the paired ratios dense / cell; None for the dense model.
    """

    retention: float | None = None
    fastv_macs: float | None = None
    kv_bytes: float | None = None
    prefill_ms: Milliseconds | None = None
    prefill_speedup: Ratio | None = None
    total_ms: Milliseconds | None = None
    total_speedup: Ratio | None = None


class TaskSummary(Costs):
    """One task or group of tasks, as one cell answers it.

    questions: number of questions.
    scores: one for each metric and filter.
    same_answer: share of questions to which the cell and the dense model give the same answer.
    tokens: tokens of one answer.
    ttft_ms: median of the time to the first token.
    """

    task: str
    questions: int
    scores: tuple[Score, ...] = ()
    same_answer: Share | None = None
    tokens: Tokens | None = None
    ttft_ms: Milliseconds | None = None
    ttft_speedup: Ratio | None = None


class BenchmarkScore(Record):
    """The score of one cell in one column, in the column's scale.

    benchmark: name of the column.
    value, dense: the scores of the cell and of the dense model.
    share: value / dense; None where it has no meaning (dense is 0 or missing).
    difference, ci95: value minus dense, with its interval, from resampled pictures. None if it is not known how a
        question moves the score.
    """

    benchmark: str
    value: float
    dense: float | None = None
    share: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None


class Scores(Record):
    """The scores of a cell by column, beside those of the dense model or of another reference.

    average: the mean of the shares of the reference, as the paper's column "Average"; None if a share is missing.
    average_ci95: its interval, from resampled pictures; None if a column's score has none.
    """

    benchmarks: tuple[BenchmarkScore, ...]
    average: float | None = None
    average_ci95: tuple[float, float] | None = None

    def score_in(self, column: Benchmark) -> BenchmarkScore | None:
        """Return the score in a column; None if it has none there."""
        return next((score for score in self.benchmarks if score.benchmark == column.name), None)


class EvaluatedCell(Scores, Costs):
    """One row of the table: a method at a retention, or the dense model.

    cell: the method, the retention and the options; None for the dense model.
    remark: what readers must know of the method wherever its results are shown.
    notes: what readers must know of how the prefills ran, each note once.
    tasks: the results by task.
    beside_default: the scores of a variant of a method beside those of the unchanged method, on the same questions;
        None for any other row. Their field `dense` is the score of the unchanged method.
    """

    cell: Cell | None
    remark: str = ""
    notes: tuple[str, ...] = ()
    tasks: tuple[TaskSummary, ...]
    beside_default: Scores | None = None


class PrintedAverage(Record):
    """An average that the suite's paper prints, as a share of dense."""

    method: str
    retention: float
    average: float


class Evaluation(StudyDocument):
    """The output of `trio-profile eval --json`.

    lmms_eval: version of lmms-eval.
    suite: name of the suite, with its table: `trio:llava-1.5-7b`; None without one.
    printed: the averages that the suite's paper prints; empty without a suite, and if not all benchmarks of its table
        are asked.
    benchmarks: the columns of the table.
    dense: the dense model's row; None if the study leaves it out.
    cells: a row for each cell, in the study's order.
    refused: the cells that could not run.
    report: path of report.html.
    """

    lmms_eval: str
    suite: str | None = None
    printed: tuple[PrintedAverage, ...] = ()
    benchmarks: tuple[Benchmark, ...]
    dense: EvaluatedCell | None
    cells: tuple[EvaluatedCell, ...]
    refused: tuple[Refusal, ...] = ()
    report: str | None = None


def conclude(document: Evaluation) -> Conclusion:
    """Return whether to prune, and with which cell. A loss is that of the average, as a share of dense."""
    methods = [row for row in document.cells if row.cell and row.remark != CONTROL]
    rows = [row for row in methods if row.prefill_speedup]
    candidates = []
    for row in rows:
        assert row.cell is not None
        assert row.prefill_speedup is not None
        questions = sum(task.questions for task in row.tasks)
        low, high = row.average_ci95 or (0.0, 0.0)
        lost = widened((1 - high, 1 - low), len(rows), questions)
        most = max(lost[1], most_lost(0, questions, joint(len(rows))))
        candidates.append(
            Candidate(
                name=f"{cell_name(row.cell)}{licence(row.remark)}",
                gain=widened(row.prefill_speedup.ci95, len(rows), row.prefill_speedup.samples, of_ratio=True),
                whole=row.total_speedup
                and widened(row.total_speedup.ci95, len(rows), row.total_speedup.samples, of_ratio=True),
                loss=None if row.average_ci95 is None else (lost[0], min(most, 1.0)),
                lost=1 - (row.average if row.average is not None else 1.0),
                weaknesses=(Weakness("medium", ONE_PROCESS),),
            )
        )
    zeros = dense_zeros(document)
    reasons = {
        random_weights(document.study.model, document.sessions): True,
        f"the dense model scores nothing in {listed(zeros)}": zeros,
        "no average has an interval": all(candidate.loss is None for candidate in candidates),
    }
    nothing = "no prefill was timed" if methods and not rows else ""
    if document.dense is None:
        nothing = "the dense model was not asked"
    evidence = Evidence(nothing, answers=next((reason for reason, holds in reasons.items() if reason and holds), ""))
    command = first_command(document.sessions)
    is_limited = bool(command) and document.study.limit is not None
    whole = with_option(with_option(command, "limit", ""), "out", "ANOTHER")
    words = Words(
        "cell",
        "the prefill is {} times as fast",
        loss="points of the average score",
        next=lambda word, _: {"next": whole} if is_limited and word != "do not" else {},
    )
    return decide(candidates, evidence, words)[0]


def dense_zeros(document: Evaluation) -> list[str]:
    """Return the benchmarks in which the dense model scores nothing, so that no score is a share of its own."""
    return [score.benchmark for score in document.dense.benchmarks if score.value <= 0] if document.dense else []


def task_rows(document: Evaluation) -> list[Flat]:
    """Return the tasks of a document: one row for each task of each row of its table."""
    columns = {column.task: column.name for column in document.benchmarks}
    rows: list[Flat] = []
    for row in [*([document.dense] if document.dense is not None else []), *document.cells]:
        scores = {score.benchmark: score for score in row.benchmarks}
        for task in row.tasks:
            score = scores.get(columns.get(task.task, ""))
            low, high = (score and score.ci95) or (None, None)
            rows.append(
                {
                    "kind": document.study.verb,
                    "suite": document.suite,
                    **of_study(document.study),
                    "device_name": document.environment.device_name,
                    "commit": document.environment.commit,
                    "method": "dense" if row.cell is None else row.cell.method,
                    "nominal_retention": row.cell and row.cell.retention,
                    "options": row.cell and text_of(row.cell.options),
                    "benchmark": columns.get(task.task),
                    "score": score and score.value,
                    "dense_score": score and score.dense,
                    "score_share": score and score.share,
                    "score_difference": score and score.difference,
                    "score_difference_low": low,
                    "score_difference_high": high,
                    **flat(TaskSummary, task),
                    "average": row.average,
                }
            )
    return filled(rows)
