"""The rows of an evaluation, for spreadsheets and data frames: one row for each task of each cell."""

from collections.abc import Iterator

from trio_profile.kinds.evaluation.document import Evaluation, TaskSummary
from trio_profile.study.table_rows import Flat, filled, flat, of_study, text_of


def task_rows(document: Evaluation) -> list[Flat]:
    """Return the tasks of a document: one row for each task of each row of its table."""
    return filled([*_evaluated(document)])


def _evaluated(document: Evaluation) -> Iterator[Flat]:
    """Yield each task of each row: what was asked, the score of its column, and the task's own quantities."""
    columns = {column.task: column.name for column in document.benchmarks}
    for row in [*([document.dense] if document.dense is not None else []), *document.cells]:
        scores = {score.benchmark: score for score in row.benchmarks}
        for task in row.tasks:
            score = scores.get(columns.get(task.task, ""))
            low, high = (score and score.ci95) or (None, None)
            yield {
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
