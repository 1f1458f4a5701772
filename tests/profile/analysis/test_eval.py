"""Scores, their differences and intervals, from what lmms-eval hands out."""

import numpy as np
import pytest

from trio_profile.analysis.eval import Answer, AnsweredQuestion, summarise_tasks
from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import difference_interval


def test_the_interval_of_a_difference_is_the_one_worked_out_by_hand():
    """Ten pairs that agree and the two that are added: variance 2/12, so 1.96 · √(2/12/12)."""
    assert difference_interval([0.0] * 10) == pytest.approx((-0.23099, 0.23099), abs=1e-5)
    low, high = difference_interval([-1.0, -1.0, 0.0, 0.0])
    assert (low + high) / 2 == pytest.approx(-2 / 6)
    assert difference_interval([1.0])[1] == 1.0
    for bad in ([], [2.0], [float("nan")]):
        with pytest.raises(MeasurementError):
            difference_interval(bad)


def test_the_interval_of_a_difference_contains_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(0)
    for n in (20, 200):
        drawn = generator.choice([-1.0, 0.0, 1.0], p=[0.08, 0.9, 0.02], size=(2000, n))
        hits = [low <= -0.06 <= high for low, high in map(difference_interval, drawn)]
        assert np.mean(hits) > 0.93


def test_only_means_of_scores_by_document_have_an_interval():
    def side(scores, f1):
        rows = [
            {"doc_id": i, "accuracy": {"score": s}, "f1": {"score": s}, "marks": 100 * s} for i, s in enumerate(scores)
        ]
        mean = sum(scores) / len(scores)
        metrics = {"alias": "yes", "accuracy,none": np.float64(mean), "f1,none": f1, "marks,none": 100 * mean}
        extras = {"accuracy_stderr,none": "N/A", "file,none": "answers.json", "nothing,none": float("nan")}
        return {"results": {"yes": metrics | extras}, "samples": {"yes": rows}, "higher_is_better": {}}

    (task,) = summarise_tasks([], side([1.0, 0.0, 1.0], 0.7), side([1.0, 1.0, 1.0], 0.9))
    by_metric = {score.metric: score for score in task.scores}
    assert set(by_metric) == {"accuracy", "f1", "marks"}
    assert by_metric["accuracy"].ci95 == difference_interval([0.0, -1.0, 0.0])
    assert by_metric["f1"].ci95 is None and by_metric["f1"].difference == pytest.approx(-0.2)
    assert by_metric["marks"].ci95 is None


def test_scores_that_are_all_alike_have_one_only_where_the_task_declares_a_mean():
    rows = [{"doc_id": i, "match": 0.0, "f1": 0.0} for i in range(10)]
    listed = [{"metric": "match", "aggregation": "mean"}, {"metric": "f1", "aggregation": "function"}]
    side = {
        "results": {"yes": {"match,none": 0.0, "f1,none": 0.0}},
        "samples": {"yes": rows},
        "higher_is_better": {},
        "configs": {"yes": {"metric_list": listed}},
    }
    (task,) = summarise_tasks([], side, side)
    assert [score.ci95 for score in task.scores] == [difference_interval([0.0] * 10), None]


def test_each_filter_has_its_own_samples():
    def side(strict, flexible):
        rows = [{"doc_id": i, "match": s} for scores in (strict, flexible) for i, s in enumerate(scores)]
        results = {"match,strict": sum(strict) / 2, "match,flexible": sum(flexible) / 2}
        return {"results": {"sums": results}, "samples": {"sums": rows}, "higher_is_better": {"sums": {"match": True}}}

    (task,) = summarise_tasks([], side([0, 0], [1, 0]), side([0, 1], [1, 1]))
    assert [(s.filter, s.difference, s.ci95) for s in task.scores] == [
        ("strict", -0.5, difference_interval([0.0, -1.0])),
        ("flexible", -0.5, difference_interval([0.0, -1.0])),
    ]


def answered(document: int, picture: int | None, pruned: str = "yes") -> AnsweredQuestion:
    said = Answer(text="yes", tokens=1, prefill_ms=2.0, ttft_ms=3.0, total_ms=4.0)
    return AnsweredQuestion(
        task="yes",
        document=document,
        picture=picture,
        retention=0.3,
        dense_first=True,
        dense=said,
        pruned=said.model_copy(update={"text": pruned}),
    )


def test_questions_about_one_picture_are_counted_together():
    """Of ten pictures with four questions each, two lose all four answers."""
    lost = [picture in (2, 5) for picture in range(10) for _ in range(4)]

    def side(scores):
        rows = [{"doc_id": i, "match": s} for i, s in enumerate(scores)]
        listed = [{"metric": "match", "aggregation": "mean"}]
        return {
            "results": {"yes": {"match,none": float(np.mean(scores))}},
            "samples": {"yes": rows},
            "higher_is_better": {},
            "configs": {"yes": {"metric_list": listed}},
        }

    def widths(pictures):
        answers = [answered(i, picture, "no" if lost[i] else "yes") for i, picture in enumerate(pictures)]
        (task,) = summarise_tasks(answers, side([float(not one) for one in lost]), side([1.0] * 40))
        return np.ptp(task.scores[0].ci95), np.ptp(task.same_answer.ci95)

    apart = widths([None] * 40)
    assert apart == pytest.approx(widths(range(40)))
    assert (np.array(widths([i // 4 for i in range(40)])) > 1.5 * np.array(apart)).all()


def test_a_group_has_scores_and_no_times():
    said = Answer(text="yes", tokens=1, prefill_ms=2.0, ttft_ms=3.0, total_ms=4.0)
    answer = AnsweredQuestion(task="pope_adv", document=0, retention=0.3, dense_first=True, dense=said, pruned=said)
    results = {"pope_full": {"accuracy,none": 0.5, "alias": "pope_full"}, "pope_adv": {"accuracy,none": 0.5}}
    found = {"results": results, "samples": {}, "higher_is_better": {"pope_full": {"accuracy": True}}}
    group, leaf = summarise_tasks([answer], found, found)
    assert (group.questions, group.prefill_ms, group.scores[0].difference) == (0, None, 0.0)
    assert (leaf.questions, leaf.prefill_speedup.value, leaf.same_answer.value) == (1, 1.0, 1.0)
