"""A document of `eval`, made by hand, and a kept study of the kind."""

from itertools import repeat
from typing import Any

from tests.profile import examples
from tests.profile.examples import ms, ratio
from trio_profile.kinds.evaluation.document import (
    Benchmark,
    BenchmarkScore,
    EvaluatedCell,
    Evaluation,
    PrintedAverage,
    Refusal,
    Score,
    TaskSummary,
)
from trio_profile.records.documents import write_document
from trio_profile.records.estimate import Share, Tokens
from trio_profile.records.schema import Cell

BENCHMARKS = (
    Benchmark(name="GQA", task="gqa", metrics=("exact_match,none",), scale=100, printed="GQA"),
    Benchmark(
        name="MME",
        task="mme",
        metrics=("mme_perception_score,none", "mme_cognition_score,none"),
        printed="MME",
    ),
    Benchmark(
        name="POPE",
        task="pope",
        metrics=("pope_f1_score,none",),
        scale=100,
        printed="POPE",
        differs="The score is F1 over all questions.",
    ),
)
UNPRUNED = {"GQA": 61.9, "MME": 1862.0, "POPE": 85.9}
"""The scores of the dense model."""


def evaluation() -> Evaluation:
    """The dense model and three cells on three tasks, with scores of the paper. A fourth cell is refused."""
    cells = (
        evaluated("trio", 0.333, {"GQA": 61.0, "MME": 1789.0, "POPE": 86.5}, 1.6),
        evaluated("fastv", 0.333, {"GQA": 52.7, "MME": 1612.0, "POPE": 64.8}, 1.5),
        evaluated("trio", 0.111, {"GQA": 58.0, "MME": 1681.0, "POPE": 84.3}, 2.4),
    )
    return Evaluation(
        environment=examples.environment(),
        lmms_eval="0.7.3",
        study=examples.study(
            verb="eval", methods=("trio", "fastv", "vtw"), retentions=(0.333, 0.111), tasks=("gqa", "mme", "pope")
        ),
        suite="trio:llava-1.5-7b",
        printed=(
            PrintedAverage(method="fastv", retention=0.333, average=0.890),
            PrintedAverage(method="trio", retention=0.333, average=0.988),
        ),
        benchmarks=BENCHMARKS,
        dense=evaluated("", 1.0, UNPRUNED, 1.0),
        cells=cells,
        refused=(Refusal(cell=Cell(method="vtw", retention=0.333), reason="vtw needs a deeper model"),),
    )


def evaluated(method: str, retention: float, values: dict[str, float], speedup: float) -> EvaluatedCell:
    """One row. Half the width of each interval is 1 % of dense. Without a method it is the dense model's."""
    seen: dict[str, Any] = {
        "retention": retention,
        "fastv_macs": 2.98e12 * retention,
        "kv_bytes": 302e6 * retention,
        "prefill_ms": ms(41 / speedup, 50),
        "total_ms": ms(61 / speedup**0.5, 50),
    }
    of_a_task = {"ttft_ms": ms(44 / speedup, 50)}
    if not method:
        scores = [BenchmarkScore(benchmark=name, value=value) for name, value in values.items()]
        tasks = tuple(map(_task, BENCHMARKS, scores, repeat(seen | of_a_task)))
        return EvaluatedCell(cell=None, tasks=tasks, benchmarks=tuple(scores), **seen)
    seen |= {"prefill_speedup": ratio(speedup, 50), "total_speedup": ratio(speedup**0.5, 50)}
    of_a_task |= {"ttft_speedup": ratio(speedup, 50), "same_answer": Share(value=0.9, ci95=(0.88, 0.92), samples=50)}
    scores = [_compared(name, value) for name, value in values.items()]
    average = sum(score.share or 0.0 for score in scores) / len(scores)
    return EvaluatedCell(
        cell=Cell(method=method, retention=retention),
        tasks=tuple(map(_task, BENCHMARKS, scores, repeat(seen | of_a_task))),
        benchmarks=tuple(scores),
        average=average,
        average_ci95=(average - 0.01, average + 0.01),
        **seen,
    )


def _compared(name: str, value: float) -> BenchmarkScore:
    """The score of a benchmark beside the dense model's."""
    dense = UNPRUNED[name]
    low, high = (value - dense + near * dense for near in (-0.01, 0.01))
    told = {"share": value / dense, "difference": value - dense, "ci95": (low, high)}
    return BenchmarkScore(benchmark=name, value=value, dense=dense, **told)


def _task(column: Benchmark, found: BenchmarkScore, seen: dict[str, Any]) -> TaskSummary:
    """The task of a column: as many scores as it has metrics, and times."""
    scores = tuple(
        Score(
            metric=key.removesuffix(",none"),
            filter="none",
            higher_is_better=True,
            value=found.value / column.scale / len(column.metrics),
            dense=None if found.dense is None else found.dense / column.scale / len(column.metrics),
            difference=None if found.difference is None else found.difference / column.scale / len(column.metrics),
            ci95=None if found.ci95 is None or column.name != "GQA" else (found.ci95[0] / 100, found.ci95[1] / 100),
        )
        for key in column.metrics
    )
    tokens = Tokens(value=2, ci95=(2, 2), samples=50, stopped="budget")
    return TaskSummary(task=column.task, questions=9000, scores=scores, tokens=tokens, **seen)


KEPT = {"eval": lambda directory: write_document(directory / "evaluation.json", evaluation())}
