"""Placeholder: the branch `suite` has the real one."""

from collections.abc import Mapping, Sequence
from typing import Any

from trio_profile.analysis.evaluation import Benchmark, BenchmarkScore
from trio_profile.records.answers import AnsweredQuestion

Results = Mapping[str, Any]
"""lmms-eval's results for one model: `results`, `samples`, `higher_is_better` and `configs`, each by task."""


def columns(results: Results, known: Sequence[Benchmark] = ()) -> tuple[Benchmark, ...]:
    """Return one column for each task: its first metric."""
    found: list[Benchmark] = list(known)
    for task, listed in results["results"].items():
        keys = [
            key for key, value in listed.items() if "," in key and "_stderr" not in key and _number(value) is not None
        ]
        found += [Benchmark(name=task, task=task, metrics=(keys[0],))] if keys else []
    return tuple(found)


def scores(
    found: Sequence[Benchmark], cell: Results, dense: Results | None, answers: Sequence[AnsweredQuestion]
) -> tuple[tuple[BenchmarkScore, ...], float | None, tuple[float, float] | None]:
    """Return the scores of one cell by column, their average as a share of dense, and its interval."""
    rows = [_score(column, cell, dense) for column in found]
    shares = [row.share for row in rows if row.share is not None]
    return tuple(rows), sum(shares) / len(shares) if shares and len(shares) == len(rows) else None, None


def _score(column: Benchmark, cell: Results, dense: Results | None) -> BenchmarkScore:
    values = [
        None if side is None else column.scale * sum(side["results"][column.task][key] for key in column.metrics)
        for side in (cell, dense)
    ]
    value, beside = values
    assert value is not None
    return BenchmarkScore(
        benchmark=column.name,
        value=value,
        dense=beside,
        share=value / beside if beside else None,
        difference=None if beside is None else value - beside,
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
