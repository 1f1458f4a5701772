"""The report of an evaluation: what the averages say, the table of scores, and what the cells cost."""

import pytest

from tests.profile.kinds.evaluation.kept import UNPRUNED, evaluated, evaluation
from tests.profile.reading import line_of, rows, sentences, table, terms
from trio_profile.kinds.evaluation import report as pages
from trio_profile.kinds.evaluation.document import EvaluatedCell, Evaluation, Scores, conclude, task_rows
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Table

SCORES = "Scores, their average as a share of dense, and speed-up over dense"


document = pytest.fixture(evaluation)


def alone(document: Evaluation) -> Evaluation:
    """The same where the dense model was not asked."""
    row = evaluated("", 0.333, UNPRUNED, 1.0)
    only = row.model_copy(update={"cell": Cell(method="trio", retention=0.333)})
    study = document.study.model_copy(update={"limit": 100})
    return document.model_copy(update={"study": study, "dense": None, "cells": (only,), "printed": ()})


def kept(row: EvaluatedCell, average: float) -> EvaluatedCell:
    """The same row with another average."""
    return row.model_copy(update={"average": average, "average_ci95": (average - 0.01, average + 0.01)})


def concluded(document: Evaluation) -> Conclusion:
    """The conclusion if the weights are those of a checkpoint: the built-in model has random ones."""
    study = document.study.model_copy(update={"model": "./checkpoint"})
    return conclude(document.model_copy(update={"study": study}))


def test_the_fastest_cell_that_keeps_the_scores_is_recommended(document: Evaluation):
    better = tuple(kept(row, 1.005) for row in document.cells)
    found = concluded(document.model_copy(update={"cells": better}))
    assert line_of(found).startswith("Do: trio at 11.1 %. The prefill is at least 2.3")
    assert "points of the average score are lost" in found.sentence


def test_a_cell_may_lose_two_points_and_no_more(document: Evaluation):
    assert line_of(concluded(document)).startswith("Try: trio at 33.3 %.")
    worse = tuple(kept(row, 0.95 - 0.01 * number) for number, row in enumerate(document.cells))
    line = line_of(concluded(document.model_copy(update={"cells": worse})))
    assert line == "Do not: of 3 cells 3 are faster at a loss of more than 2 points of the average score."


def test_a_wide_interval_makes_a_recommendation_uncertain(document: Evaluation):
    wide = tuple(row.model_copy(update={"average": 0.99, "average_ci95": (0.45, 1.05)}) for row in document.cells)
    found = concluded(document.model_copy(update={"cells": wide}))
    assert (found.word, found.sureness) == ("try", "low")


def test_neither_a_control_nor_a_slow_cell_is_recommended(document: Evaluation):
    controls = tuple(kept(row, 1.0).model_copy(update={"remark": "control"}) for row in document.cells)
    assert concluded(document.model_copy(update={"cells": controls})).word == "nothing to decide"
    slow = kept(evaluated("trio", 0.333, {"GQA": 61.9, "MME": 1862.0, "POPE": 85.9}, 0.9), 1.0)
    assert concluded(document.model_copy(update={"cells": (slow,)})).word == "do not"


def test_a_dense_model_that_scores_nothing_says_nothing_of_answers(document: Evaluation):
    dense = document.dense
    assert dense is not None
    nothing = dense.model_copy(update={"benchmarks": (dense.benchmarks[0].model_copy(update={"value": 0.0}),)})
    found = concluded(document.model_copy(update={"dense": nothing}))
    assert "the dense model scores nothing in GQA" in found.reasons[1] and found.loss is None


def test_random_weights_say_nothing_of_answers(document: Evaluation):
    assert "random numbers" in conclude(document).reasons[1] and conclude(document).loss is None


def test_what_is_missing_is_told(document: Evaluation):
    row = document.cells[0]
    scores = (row.benchmarks[0], row.benchmarks[1].model_copy(update={"ci95": None}), row.benchmarks[2])
    chance = row.model_copy(update={"benchmarks": scores, "average_ci95": None, "notes": ("other code ran",)})
    bare = {"prefill_ms": None, "prefill_speedup": None, "total_ms": None, "total_speedup": None}
    blind = row.model_copy(update={"tasks": tuple(task.model_copy(update=bare) for task in row.tasks)} | bare)
    for update, said in (
        ({"cells": (chance,)}, "MME: the difference has no interval, so it may be chance, and the average has none"),
        ({"cells": (chance,)}, f"{pages.name_of(row)}: other code ran."),
        ({"cells": (blind,)}, "gqa, mme and pope: no question has a picture"),
        ({"benchmarks": document.benchmarks[:2]}, "No column and no part in the average: pope."),
        ({"cells": ()}, "No cell has answered."),
    ):
        told = sentences(pages.report(document.model_copy(update=update)))
        assert any(line.startswith(said) for line in told), said


def test_without_the_dense_model_there_is_nothing_to_compare_with(document: Evaluation):
    assert concluded(alone(document)).sentence == "the dense model was not asked."
    report = pages.report(alone(document))
    found = table(report, SCORES)
    assert list(found.columns[:7]) == ["Method", "Retention", "prefill", "KV", "GQA", "MME", "POPE"]
    assert "the first 100 questions of a task" in report.facts


def test_the_table_has_dense_first_then_the_highest_retention(document: Evaluation):
    found = table(pages.report(document), SCORES)
    assert found.first == 10
    speeds = (
        ("1.60× [1.55, 1.65]", "1.26× [1.21, 1.31]"),
        ("1.50× [1.45, 1.55]", "1.22× [1.17, 1.27]"),
        ("2.40× [2.35, 2.45]", "1.55× [1.50, 1.60]"),
    )
    scores = [
        ["–", "100.0 %", "–", "61.9", "1862.0", "85.9", "–", "–"],
        [speeds[0][0], "98.4 % [97, 99]", "33 %", "61.0", "1789.0", "86.5", "98.8 %", speeds[0][1]],
        [speeds[1][0], "82.4 % [81, 83]", "33 %", "52.7", "1612.0", "64.8", "89.0 %", speeds[1][1]],
        [speeds[2][0], "94.0 % [93, 95]", "11 %", "58.0", "1681.0", "84.3", "–", speeds[2][1]],
    ]
    names = [["dense", "100.0 %"], ["trio", "33.3 %"], ["fastv", "33.3 %"], ["trio", "11.1 %"]]
    assert [row[:10] for row in rows(found)] == [name + row for name, row in zip(names, scores, strict=True)]
    assert [entry.tone for entry in found.rows[1][:7]] == ["", "", "gain", "loss", "", "loss", "loss"]
    assert found.rows[1][5].title == "−0.9 [−1.5, −0.3] to dense"
    assert rows(found)[0][10:] == ["100.0 %", "–", "41.0 ms", "61.0 ms"]
    assert rows(found)[-1][10:] == ["11.1 %", "11 %", "17.1 ms", "39.4 ms"]


def test_the_paper_prints_nothing_for_a_variant(document: Evaluation):
    row = document.cells[0]
    variant = row.model_copy(update={"cell": Cell(method="trio", retention=0.333, options={"k_pos": 1})})
    found = rows(table(pages.report(document.model_copy(update={"cells": (row, variant)})), SCORES))
    assert [(row[0], row[8]) for row in found[1:]] == [("trio", "98.8 %"), ("trio (k_pos = 1)", "–")]


def test_tasks_columns_and_refusals_are_told(document: Evaluation):
    report = pages.report(document)
    assert [page.id for page in report.pages] == ["scores", "tasks", "columns"]
    assert [page.id for page in report.pages if page.folded] == ["tasks", "columns"]
    found = rows(table(report, "All metrics"))
    assert found[1] == ["gqa", "exact_match", "fastv at 33.3 %", "0.6190", "0.5270", "−0.0920 [−0.0982, −0.0858]"]
    assert "The score is F1 over all questions." in terms(report)["POPE"]
    assert "vtw at 33.3 % could not run: vtw needs a deeper model." in sentences(report)


def test_variants_stand_beside_the_default(document: Evaluation):
    default, changed = document.cells[0], {"k_pos": 1}
    beside = Scores(benchmarks=default.benchmarks, average=0.97, average_ci95=(0.95, 0.99))
    cell = Cell(method="trio", retention=0.333, options=changed)
    variant = default.model_copy(update={"cell": cell, "beside_default": beside})
    study = document.study.model_copy(update={"ablations": {"k_pos": {"1": changed, "4": {}}}})
    report = pages.report(document.model_copy(update={"cells": (default, variant), "study": study}))
    assert sentences(report)[0] == (
        "Of 1 variant with an interval, 1 differs measurably from the default: k_pos 1 at 33.3 % (worse)."
    )
    found = report.pages[0].blocks[1]
    assert isinstance(found, Table)
    assert [row[:3] for row in rows(found)] == [["k_pos", "1", "33.3 %"], ["k_pos", "4 default", "33.3 %"]]
    assert [rows(found)[0][place] for place in (7, 9)] == ["97.0 % [95, 99]", "92.1"]


def test_the_table_draws_speed_and_average_beside_dense(document: Evaluation):
    scores = table(pages.report(document), SCORES)
    average = scores.columns.index("average")
    assert scores.drawn == {"prefill": 1.0, "average": 1.0}
    assert [row[average].bounds is not None for row in scores.rows] == [False, True, True, True]


def test_an_evaluation_has_a_row_for_each_cell_and_task(document: Evaluation):
    rows = task_rows(document)
    assert len(rows) == 4 * 3
    assert [row["method"] for row in rows[::3]] == ["dense", "trio", "fastv", "trio"]
    assert rows[4]["benchmark"] == "MME" and rows[4]["score"] == 1789.0 and rows[4]["dense_score"] == 1862.0
    assert rows[4]["score_difference_low"] < -73 < rows[4]["score_difference_high"]
    assert rows[3]["prefill_speedup_low"] < rows[3]["prefill_speedup"] and rows[0]["prefill_speedup"] is None
