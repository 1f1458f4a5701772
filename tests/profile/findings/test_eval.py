"""The report of an evaluation: what the averages say, the table of scores, and what the cells cost."""

import pytest

from tests.profile.documents import BENCHMARKS, evaluated, evaluation
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, terms, too_wide
from trio_profile.analysis.evaluation import EvaluatedCell, Evaluation
from trio_profile.findings import eval as pages
from trio_profile.findings.blocks import Chart, Sentences
from trio_profile.records.schema import Cell
from trio_profile.render import render
from trio_profile.render.latex import latex
from trio_profile.render.markdown import markdown

AVERAGES = "Average and speed-up over dense"
SCORES = "Scores, and their average as a share of dense"
COST = (
    "Cost of a question with a picture. f(n) is the paper's formula with γ = 1, in multiply-adds; the paper prints it "
    "as FLOPs"
)


@pytest.fixture
def document() -> Evaluation:
    return evaluation()


def alone(document: Evaluation) -> Evaluation:
    """The same where the dense model was not asked."""
    bare = {"average": None, "average_ci95": None, "prefill_speedup": None, "total_speedup": None}
    only = [
        {"dense": None, "share": None, "difference": None, "ci95": None, "benchmark": one.name} for one in BENCHMARKS
    ]
    cells = tuple(
        cell.model_copy(
            update=bare
            | {"benchmarks": tuple(s.model_copy(update=u) for s, u in zip(cell.benchmarks, only, strict=True))}
        )
        for cell in document.cells
    )
    return document.model_copy(update={"dense": None, "cells": cells, "printed": (), "limit": 100})


def kept(row: EvaluatedCell, average: float) -> EvaluatedCell:
    """The same row with another average."""
    return row.model_copy(update={"average": average, "average_ci95": (average - 0.01, average + 0.01)})


# --- sentences -------------------------------------------------------------------------------------------------------


def test_the_fastest_cell_that_keeps_the_scores_is_recommended(document: Evaluation):
    better = [kept(row, 1.005) for row in document.cells]
    found = sentences(pages.report(document.model_copy(update={"cells": tuple(better)})))
    assert found[0] == ("Use trio at 11.1 %: average 100.5 % [99.5, 101.5] of dense, prefill 2.40× [2.35, 2.45].")
    assert (
        "Not measurably different from dense on average: fastv at 33.3 %, trio at 33.3 % and trio at 11.1 %." in found
    )


def test_a_cell_may_lose_two_points_and_no_more(document: Evaluation):
    assert sentences(pages.report(document))[0].startswith("Use trio at 33.3 %: average 98 %")
    worse = tuple(kept(row, 0.97 - 0.01 * number) for number, row in enumerate(document.cells))
    found = sentences(pages.report(document.model_copy(update={"cells": worse})))
    assert found[0].startswith("No cell is faster and loses at most 2.0 % on average. The one that loses least is trio")


def test_a_wide_interval_makes_a_recommendation_uncertain(document: Evaluation):
    wide = tuple(row.model_copy(update={"average": 0.99, "average_ci95": (0.45, 1.05)}) for row in document.cells)
    found = sentences(pages.report(document.model_copy(update={"cells": wide})))
    assert found[1] == "This is uncertain: it may lose up to 55.0 %. Ask more questions."


def test_a_control_is_not_recommended(document: Evaluation):
    controls = tuple(kept(row, 1.0).model_copy(update={"remark": "control"}) for row in document.cells)
    found = sentences(pages.report(document.model_copy(update={"cells": controls})))
    assert not any(line.startswith(("Use", "No cell", "No method")) for line in found)


def test_the_sentences_say_which_cells_no_other_beats_and_which_benchmarks_lose(document: Evaluation):
    found = sentences(pages.report(document))
    assert found[1] == "On the Pareto front of prefill speed-up and average: trio at 33.3 % and trio at 11.1 %."
    assert found[3] == ("trio at 33.3 %: worse than dense in GQA and MME; not measurably different from dense in POPE.")


def test_a_slow_cell_is_not_recommended(document: Evaluation):
    slow = kept(evaluated("trio", 0.333, {"GQA": 61.9, "MME": 1862.0, "POPE": 85.9}, 1.01), 1.0)
    found = sentences(pages.report(document.model_copy(update={"cells": (slow,)})))
    assert found[0] == "No method is measurably faster than dense in prefill."


def test_a_difference_without_an_interval_may_be_chance(document: Evaluation):
    row = document.cells[0]
    scores = (row.benchmarks[0], row.benchmarks[1].model_copy(update={"ci95": None}), row.benchmarks[2])
    bare = row.model_copy(update={"benchmarks": scores, "average_ci95": None})
    found = sentences(pages.report(document.model_copy(update={"cells": (bare,)})))
    assert "MME: the difference has no interval, so it may be chance, and the average has none either." in found


def test_without_the_dense_model_there_is_nothing_to_compare_with(document: Evaluation):
    report = pages.report(alone(document))
    assert sentences(report) == ["The dense model was not asked, so there is nothing to compare with."]
    found = table(report, "Scores")
    assert found.columns == ("Method", "Retention", "GQA", "MME", "POPE")
    assert not blocks(report, Chart) and "the first 100 questions of a task" in report.facts


# --- tables ----------------------------------------------------------------------------------------------------------


def test_the_table_has_dense_first_then_the_highest_retention(document: Evaluation):
    found = table(pages.report(document), SCORES)
    assert rows(found) == [
        ["dense", "100.0 %", "61.9", "1862.0", "85.9", "100.0 %"],
        ["fastv", "33.3 %", "52.7", "1612.0", "64.8", "82.4 %"],
        ["trio", "33.3 %", "61.0", "1789.0", "86.5", "98.4 %"],
        ["trio", "11.1 %", "58.0", "1681.0", "84.3", "94.0 %"],
    ]
    assert [entry.tone for entry in found.rows[2]] == ["", "", "loss", "loss", "", "loss"]
    assert found.rows[2][2].title == "−0.9 [−1.5, −0.3] to dense"


def test_a_low_score_has_the_decimals_of_its_column(document: Evaluation):
    row = evaluated("trio", 0.111, {"GQA": 7.5, "MME": 9.0, "POPE": 0.0}, 2.4)
    found = table(pages.report(document.model_copy(update={"cells": (row,)})), SCORES)
    assert rows(found)[1][2:5] == ["7.5", "9.0", "0.0"]


def test_the_average_stands_beside_what_the_paper_prints(document: Evaluation):
    found = rows(table(pages.report(document), AVERAGES))
    assert found[1] == ["trio", "33.3 %", "98.4 %", "[97, 99]", "98.8 %", "1.60× [1.55, 1.65]", "1.26×"]
    assert [row[4] for row in found] == ["89.0 %", "98.8 %", "–"]


def test_the_paper_prints_nothing_for_a_variant(document: Evaluation):
    row = document.cells[0]
    variant = row.model_copy(update={"cell": Cell(method="trio", retention=0.333, options={"k_pos": 1})})
    found = rows(table(pages.report(document.model_copy(update={"cells": (row, variant)})), AVERAGES))
    assert [(row[0], row[4]) for row in found] == [("trio", "98.8 %"), ("trio (k_pos = 1)", "–")]


def test_the_cost_has_the_work_of_all_cells_in_one_unit(document: Evaluation):
    found = rows(table(pages.report(document), COST))
    assert found[0][2:] == ["100.0 %", "2.98 T", "288 MiB", "41.0 ms", "61.0 ms"]
    assert found[-1][2:] == ["11.1 %", "0.3308 T", "31.97 MiB", "17.1 ms", "39.4 ms"]


def test_every_metric_of_every_task_is_behind_a_click(document: Evaluation):
    found = table(pages.report(document), "All metrics")
    assert found.detail
    assert rows(found)[0] == ["gqa", "exact_match", "fastv", "33.3 %", "0.6190", "0.5270", "−0.0920 [−0.0982, −0.0858]"]
    assert {row[0] for row in rows(found)} == {"gqa", "mme", "pope"}


def test_the_columns_and_the_refusals_are_explained(document: Evaluation):
    report = pages.report(document)
    assert terms(report)["MME"] == "mme: mme_perception_score + mme_cognition_score."
    assert terms(report)["POPE"] == "pope: pope_f1_score × 100. The score is F1 over all questions."
    assert rows(table(report, "Left out")) == [["vtw", "33.3 %", "vtw needs a deeper model"]]


def test_the_charts_have_every_cell(document: Evaluation):
    average, differences = blocks(pages.report(document), Chart)
    assert [(series.name, len(series.x)) for series in average.series] == [("fastv", 1), ("trio", 2)]
    assert [list(series.hollow) for series in average.series] == [[True], [False, False]]
    assert list(differences.x.names) == ["GQA", "MME", "POPE"]
    assert [series.name for series in differences.series] == ["fastv at 33.3 %", "trio at 33.3 %", "trio at 11.1 %"]
    for series in differences.series:
        assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))


def without_pictures(row: EvaluatedCell) -> EvaluatedCell:
    bare = {"prefill_ms": None, "prefill_speedup": None, "total_ms": None, "total_speedup": None}
    return row.model_copy(update={"tasks": tuple(task.model_copy(update=bare) for task in row.tasks)} | bare)


def test_without_a_picture_the_rows_are_the_dense_model(document: Evaluation):
    cells = tuple(map(without_pictures, document.cells))
    said, *_ = blocks(pages.report(document.model_copy(update={"cells": cells})), Sentences)
    assert said.lines == ["gqa, mme and pope: no question has a picture, so every row has the dense model's answers."]


def test_a_dense_score_of_0_explains_the_missing_average(document: Evaluation):
    assert document.dense is not None
    first, *others = document.dense.benchmarks
    dense = document.dense.model_copy(update={"benchmarks": (first.model_copy(update={"value": 0.0}), *others)})
    (said, *_) = blocks(pages.report(document.model_copy(update={"dense": dense})), Sentences)
    assert said.lines[0] == "The dense model scores nothing in GQA, so there is no average as a share of dense."


def test_a_task_without_a_column_is_named(document: Evaluation):
    (said, *_) = blocks(pages.report(document.model_copy(update={"benchmarks": document.benchmarks[:2]})), Sentences)
    assert "No column and no part in the average: pope. “Task by task” has the scores." in said.lines


def test_without_a_timed_question_there_is_no_cost(document: Evaluation):
    cells = [
        cell.model_copy(update={"prefill_ms": None, "prefill_speedup": None, "total_ms": None, "total_speedup": None})
        for cell in document.cells
    ]
    report = pages.report(document.model_copy(update={"cells": tuple(cells)}))
    assert [page.id for page in report.pages] == ["scores", "tasks", "refused"]


def test_terminal_page_markdown_and_latex_show_the_same_report(document: Evaluation):
    report = pages.report(document)
    for shown in (in_terminal(report), render(report), markdown(report), latex(report)):
        assert all(text in shown for text in ("Use trio at 33.3", "1789.0", "fastv", "0.3308"))
    assert not list(too_wide(report))


def test_what_the_prefills_of_a_cell_told_of_themselves_stands_under_the_costs(document: Evaluation):
    first, *others = document.cells
    noted = first.model_copy(update={"notes": ("other code ran",)})
    last = pages.cost_page(document.model_copy(update={"cells": (noted, *others)})).blocks[-1]
    assert isinstance(last, Sentences)
    assert last.lines == [f"{pages.name_of(first)}: other code ran."]
