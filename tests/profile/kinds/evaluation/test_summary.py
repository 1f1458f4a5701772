"""The rows of an evaluation, from the answers and from what lmms-eval hands out."""

import numpy as np
import pytest

from trio_profile.kinds.evaluation.answers import DENSE, Answer, AnsweredQuestion, PrunedAnswer
from trio_profile.kinds.evaluation.benchmarks import columns, scores
from trio_profile.kinds.evaluation.summary import evaluate_row
from trio_profile.records.study import Cell
from trio_profile.stats.intervals import difference_interval

CELL = Cell(method="trio", retention=0.3)


def side(scores, task="yes", **more) -> dict:
    """lmms-eval's results of one model: the mean of these scores, and further numbers."""
    listed = [{"metric": "match", "aggregation": "mean"}]
    return {
        "results": {task: {"alias": task, "match,none": float(np.mean(scores)), "match_stderr,none": "N/A", **more}},
        "samples": {task: [{"doc_id": i, "match": score} for i, score in enumerate(scores)]},
        "higher_is_better": {task: {"match": True}},
        "configs": {task: {"metric_list": listed}},
    }


def question(document: int, picture: int | None = None, *, text: str = "yes", task: str = "yes", tokens: int = 90):
    """A question to which the dense model answers yes in 4 ms, and the cell says `text` in 2 ms."""
    said = Answer(text="yes", tokens=1, prefill_ms=4.0, ttft_ms=5.0, total_ms=6.0, kv_bytes=100)
    pruned = PrunedAnswer(
        text=text,
        tokens=2,
        prefill_ms=2.0,
        ttft_ms=2.5,
        total_ms=3.0,
        kv_bytes=40,
        cell=CELL,
        retention=0.25 if document % 2 else 0.35,
        fastv_macs=300,
    )
    return AnsweredQuestion(
        task=task,
        split="test",
        document=document,
        prompt="",
        picture=picture,
        visual_tokens=tokens,
        order=(DENSE, CELL.id),
        dense=said,
        dense_fastv_macs=1000,
        answers=(pruned,),
    )


def test_a_row_has_scores_work_cache_and_times():
    answers = [question(0, 0), question(1, 1, text="no")]
    cell, dense = side([1.0, 0.0]), side([1.0, 1.0])
    row = evaluate_row(CELL, answers, cell, dense, columns(cell), "a port")
    (task,) = row.tasks
    assert (row.cell, row.remark, task.questions) == (CELL, "a port", 2)
    for found in (row, task):
        assert (found.retention, found.fastv_macs, found.kv_bytes) == (pytest.approx(0.3), 300, 40)
        assert (found.prefill_ms.value, found.total_ms.value) == pytest.approx((2.0, 3.0))
        assert (found.prefill_speedup.value, found.total_speedup.value) == (2.0, 2.0)
    assert (task.same_answer.value, task.tokens.value, task.ttft_speedup.value) == (0.5, 2, 2.0)
    (score,) = task.scores
    assert (score.metric, score.filter, score.higher_is_better) == ("match", "none", True)
    assert (score.value, score.dense, score.difference) == (0.5, 1.0, -0.5)
    assert score.ci95 == pytest.approx(difference_interval([0.0, -1.0]))
    assert [(one.benchmark, one.value, one.share) for one in row.benchmarks] == [("yes", 0.5, 0.5)]


def test_the_dense_row_has_nothing_to_be_compared_with():
    dense = side([1.0, 1.0])
    row = evaluate_row(None, [question(0), question(1)], dense, None, columns(dense))
    assert (row.cell, row.retention, row.fastv_macs, row.kv_bytes) == (None, 1.0, 1000, 100)
    assert (row.prefill_ms.value, row.prefill_speedup, row.average) == (4.0, None, None)
    assert (row.tasks[0].same_answer, row.tasks[0].scores[0].dense) == (None, None)


def test_only_numbers_of_lmms_eval_are_scores():
    extras = {"file,none": "answers.json", "nothing,none": float("nan")}
    (task,) = evaluate_row(CELL, [], side([1.0], **extras), None, ()).tasks
    assert [score.metric for score in task.scores] == ["match"]


def test_questions_about_one_picture_are_counted_together():
    """Of ten pictures with four questions each, two lose all four answers."""
    lost = [picture in (2, 5) for picture in range(10) for _ in range(4)]

    def widths(pictures):
        answers = [question(i, picture, text="no" if lost[i] else "yes") for i, picture in enumerate(pictures)]
        cell = side([float(not one) for one in lost])
        (task,) = evaluate_row(CELL, answers, cell, side([1.0] * 40), ()).tasks
        return np.ptp(task.scores[0].ci95), np.ptp(task.same_answer.ci95)

    apart = widths([None] * 40)
    assert apart == pytest.approx(widths(range(40)))
    assert (np.array(widths([i // 4 for i in range(40)])) > 1.5 * np.array(apart)).all()


def test_a_group_has_scores_and_no_times():
    results = {"pope_full": {"accuracy,none": 0.5, "alias": "pope_full"}, "pope_adv": {"accuracy,none": 0.5}}
    found = {"results": results, "samples": {}, "higher_is_better": {"pope_full": {"accuracy": True}}}
    group, leaf = evaluate_row(CELL, [question(0, task="pope_adv")], found, found, ()).tasks
    assert (group.questions, group.prefill_ms, group.scores[0].difference) == (0, None, 0.0)
    assert (leaf.questions, leaf.prefill_speedup.value, leaf.same_answer.value) == (1, 2.0, 1.0)


def test_a_variant_is_compared_with_the_default_on_the_same_questions():
    answers = [question(i, i) for i in range(4)]
    default, variant = side([1.0, 1.0, 1.0, 0.0]), side([1.0, 1.0, 0.0, 0.0])
    found = scores(columns(default), variant, default, answers)
    (score,) = found.benchmarks
    assert (score.value, score.dense, score.difference) == (0.5, 0.75, -0.25)
    assert score.ci95 == pytest.approx(difference_interval([0.0, 0.0, -1.0, 0.0]))
    assert found.average == pytest.approx(0.5 / 0.75)
    assert found.average_ci95[0] < found.average < found.average_ci95[1]
