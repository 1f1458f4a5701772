"""The rows of an evaluation, from the answers and from what lmms-eval hands out: columns, scores, averages, costs."""

import numpy as np
import pytest

from trio_profile.kinds.evaluation.answers import DENSE, Answer, AnsweredQuestion, PrunedAnswer
from trio_profile.kinds.evaluation.document import Benchmark
from trio_profile.kinds.evaluation.question_scores import question_scores
from trio_profile.kinds.evaluation.summary import columns, evaluate_row, scores
from trio_profile.records.study import Cell
from trio_profile.stats.intervals import difference_interval
from trio_profile.stats.resampling import draws

CELL = Cell(method="trio", retention=0.3)


def results(**tasks):
    """lmms-eval's results. Each task: the logged value of each question, by metric and question; and the scores."""
    found = {"results": {}, "samples": {}, "higher_is_better": {}}
    for task, (logged, values) in tasks.items():
        documents = sorted({document for rows in logged.values() for document in rows})
        found["samples"][task] = [
            {"doc_id": document, **{metric: rows[document] for metric, rows in logged.items() if document in rows}}
            for document in documents
        ]
        found["results"][task] = {"alias": task} | {f"{metric},none": value for metric, value in values.items()}
        found["higher_is_better"][task] = dict.fromkeys(values, True)
    return found


def side(scores, task="yes", **more) -> dict:
    """lmms-eval's results of one model: the mean of these scores, and further numbers."""
    found = results(**{task: ({"match": dict(enumerate(scores))}, {"match": float(np.mean(scores))})})
    found["results"][task] |= {"match_stderr,none": "N/A", **more}
    return found | {"configs": {task: {"metric_list": [{"metric": "match", "aggregation": "mean"}]}}}


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


MME = Benchmark(name="MME", task="mme", metrics=("mme_perception_score,none", "mme_cognition_score,none"))


def scored(*arguments):
    """The scores, their average and its interval."""
    found = scores(*arguments)
    return found.benchmarks, found.average, found.average_ci95


def asked(task: str, pictures) -> list[AnsweredQuestion]:
    """Answers to questions about these pictures."""
    return [question(document, int(picture), task=task) for document, picture in enumerate(pictures)]


# --- columns ---------------------------------------------------------------------------------------------------------


def test_a_task_has_the_column_of_its_first_score_of_which_higher_is_better():
    found = results(pope=({}, {"errors": 0.1, "accuracy": 0.9, "f1": 0.8}), gqa=({}, {"exact_match": 0.6}))
    found["higher_is_better"]["pope"]["errors"] = False
    found["results"]["pope"] |= {"accuracy_stderr,none": 0.01, "submission,none": "DIR/file.json"}
    assert [(column.name, column.metrics) for column in columns(found)] == [
        ("pope", ("accuracy,none",)),
        ("gqa", ("exact_match,none",)),
    ]


def test_a_task_without_a_number_of_which_higher_is_better_has_no_column():
    found = results(mystery=({}, {"score": 1.0}), vqav2_test=({}, {"submission": float("nan")}))
    found["higher_is_better"]["mystery"]["score"] = None
    assert columns(found) == ()


def test_the_parts_of_a_group_with_a_score_have_no_column_of_their_own():
    found = results(both=({}, {"acc": 0.5}), left=({}, {"acc": 0.4}), right=({}, {"acc": 0.6}))
    found["group_subtasks"] = {"both": ["left", "right"]}
    assert [column.name for column in columns(found)] == ["both"]


def test_the_columns_of_a_suite_come_first_and_in_its_order():
    gqa = Benchmark(name="GQA", task="gqa", metrics=("exact_match,none",), scale=100)
    absent = Benchmark(name="SQA", task="scienceqa_img", metrics=("exact_match,none",))
    found = results(
        pope=({}, {"f1": 0.8}),
        gqa=({}, {"exact_match": 0.6}),
        mme=({}, {"mme_perception_score": 1500, "mme_cognition_score": 300}),
    )
    assert [column.name for column in columns(found, [MME, absent, gqa])] == ["MME", "GQA", "pope"]


# --- scores ----------------------------------------------------------------------------------------------------------


LLAVA = (61.9, 64.7, 58.1, 1862, 85.9, 69.5, 78.5, 58.2)
QWEN = (83.7, 2299, 87, 88.65, 81.8, 61, 77.7)


def test_the_average_is_the_one_that_the_paper_prints():
    for dense, cell, printed in (
        (LLAVA, (52.7, 61.2, 57.0, 1612, 64.8, 67.3, 67.1, 52.5), 89.0),  # FastV, 192 of 576
        (QWEN, (77.6, 2150, 77.5, 84.8, 75.5, 53.5, 70.6), 91.7),  # TRIO, 11.1 % of 1296
    ):
        known = [Benchmark(name=f"{number}", task=f"{number}", metrics=("m,none",)) for number in range(len(dense))]
        both = [results(**{f"{n}": ({}, {"m": score}) for n, score in enumerate(side)}) for side in (cell, dense)]
        _, average, interval = scored(known, *both, [])
        assert average is not None and round(100 * average, 1) == pytest.approx(printed) and interval is None


def test_a_score_stands_in_the_scale_of_its_column_with_the_interval_of_its_difference():
    generator = np.random.default_rng(0)
    dense, cell = (generator.random(300) < share for share in (0.8, 0.7))
    column = Benchmark(name="GQA", task="gqa", metrics=("match,none",), scale=100)
    sides = (side(answers * 1.0, "gqa") for answers in (cell, dense))
    (score,), average, interval = scored([column], *sides, asked("gqa", range(300)))
    assert score.value == pytest.approx(100 * cell.mean()) and score.share == pytest.approx(average)
    assert score.difference == pytest.approx(100 * (cell.mean() - dense.mean()))
    assert score.ci95 is not None and np.mean(score.ci95) == pytest.approx(score.difference, abs=0.5)
    assert average is not None and interval is not None and interval[0] < average < interval[1]


def test_a_dense_score_of_0_gives_no_share_and_no_average():
    (score,), average, _ = scored(columns(side([1.0])), side([1.0]), side([0.0]), [])
    assert score.difference == 1 and score.share is None and average is None


def test_the_interval_of_a_share_does_not_begin_below_nothing():
    dense, cell = side([1.0, 0.0]), side([0.0, 1.0])
    _, average, interval = scored(columns(cell), cell, dense, [])
    assert average == 1 and interval is not None and interval[0] == 0 and interval[1] > 2


def test_a_score_whose_rule_is_not_known_gives_the_average_no_interval():
    found = results(caption=({"CIDEr": {0: {"answer": "a"}, 1: {"answer": "b"}}}, {"CIDEr": 1.1}))
    (score,), average, interval = scored(columns(found), found, found, [])
    assert score.ci95 is None and average == 1 and interval is None


def test_the_interval_of_the_average_is_the_one_of_resampled_pictures():
    """Two tasks on the same pictures, two questions each. What the cell loses depends on the picture."""
    generator = np.random.default_rng(3)
    pictures = np.repeat(np.arange(300), 2)
    hard = np.repeat(generator.random(300), 2)
    sides = [[(generator.random(600) < chance) * 1.0 for _ in "ab"] for chance in (0.9 * (hard < 0.8), 0.9)]
    cell, dense = (
        {part: side(a, "gqa")[part] | side(b, "vqa")[part] for part in ("results", "samples")}
        | {"higher_is_better": {task: {"match": True} for task in ("gqa", "vqa")}}
        for a, b in sides
    )
    answers = [*asked("gqa", pictures), *asked("vqa", pictures)]
    _, average, interval = scored(columns(cell), cell, dense, answers)
    assert average is not None and interval is not None
    drawn = draws(600, 3000, 0, clusters=pictures.tolist())
    shares = [a[drawn].mean(axis=1) / b[drawn].mean(axis=1) for a, b in zip(*sides, strict=True)]
    assert interval[1] - interval[0] == pytest.approx(2 * 1.96 * np.mean(shares, axis=0).std(), rel=0.1)


# --- rules -----------------------------------------------------------------------------------------------------------


def mme(logged):
    """MME's totals, as a plain loop."""
    totals = {}
    for metric, rows in logged.items():
        categories = {}
        for row in rows.values():
            categories.setdefault(row["category"], {}).setdefault(row["question_id"], []).append(row["score"])
        totals[metric] = sum(
            np.mean([100 * np.mean(s) + 100 * (sum(s) == 2) for s in pictures.values()])
            for pictures in categories.values()
        )
    return totals


def of_mme(seed):
    generator = np.random.default_rng(seed)
    logged = {"mme_perception_score": {}, "mme_cognition_score": {}}
    for document in range(200):
        metric = list(logged)[document % 4 > 1]
        row = {
            "category": f"{document % 8 // 2}",
            "question_id": document // 2,
            "score": float(generator.random() < 0.7),
        }
        logged[metric][document] = row
    return logged


def test_the_two_totals_of_mme_add_up_and_have_an_interval():
    a, b = of_mme(0), of_mme(1)
    cell, dense = results(mme=(a, mme(a))), results(mme=(b, mme(b)))
    (score,), _, interval = scored([MME], cell, dense, asked("mme", np.arange(200) // 2))
    assert score.value == pytest.approx(sum(mme(a).values()))
    assert score.ci95 is not None and interval is not None
    found = question_scores(cell, "mme", "mme_perception_score,none")
    assert found is not None and len(found.documents) == 100 and found.each.sum() == pytest.approx(0)


def test_the_effects_on_f1_are_those_of_leaving_each_question_out():
    generator = np.random.default_rng(2)

    def f1(rows):
        said, right = ([row[name] for row in rows.values()] for name in ("prediction", "ground_truth"))
        hits = sum(a == b == "yes" for a, b in zip(said, right, strict=True))
        precision, recall = (
            hits / said.count("yes"),
            hits / (hits + sum((a, b) == ("no", "yes") for a, b in zip(said, right, strict=True))),
        )
        return 2 * precision * recall / (precision + recall)

    words = ["yes", "no", "maybe"]
    logged = {
        "pope_f1_score": {
            n: {"prediction": words[generator.integers(3)], "ground_truth": words[n % 2], "score": 0.5}
            for n in range(300)
        }
    }
    whole = f1(logged["pope_f1_score"])
    found = question_scores(results(pope=(logged, {"pope_f1_score": whole})), "pope", "pope_f1_score,none")
    assert found is not None
    rows = logged["pope_f1_score"]
    left_out = [whole - f1({other: row for other, row in rows.items() if other != n}) for n in range(300)]
    assert found.each == pytest.approx(left_out, abs=2e-4)


def test_the_letters_of_mmbench_are_a_mean_where_no_judge_was_needed():
    said = ["A", "B.", "(C) a cat", "The dog"]
    logged = {"gpt_eval_score": {n: {"index": n, "prediction": s, "answer": "ABCD"[n]} for n, s in enumerate(said)}}
    assert question_scores(results(mmb=(logged, {"gpt_eval_score": 75.0})), "mmb", "gpt_eval_score,none") is not None
    judged = results(mmb=(logged, {"gpt_eval_score": 100.0}))
    assert question_scores(judged, "mmb", "gpt_eval_score,none") is None


def test_a_question_of_mmbench_counts_if_it_is_right_in_every_order_of_its_options():
    rows = [(1, "A", "A"), (1_000_001, "B", "C"), (2, "B", "B"), (1_000_002, "D", "D")]
    logged = {"gpt_eval_score": {n: {"index": i, "prediction": s, "answer": a} for n, (i, s, a) in enumerate(rows)}}
    found = question_scores(results(mmb=(logged, {"gpt_eval_score": 50.0})), "mmb", "gpt_eval_score,none")
    assert found is not None and found.each == pytest.approx([-12.5, -12.5, 12.5, 12.5])
