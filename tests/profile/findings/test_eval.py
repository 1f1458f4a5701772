"""The report of an evaluation: what the intervals of its scores say, and the times of the same answers."""

import pytest

from tests.profile.documents import evaluation
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, too_wide
from trio_profile.analysis.eval import Evaluation
from trio_profile.findings import eval as pages
from trio_profile.findings.blocks import Chart, Table
from trio_profile.render import render


@pytest.fixture
def document() -> Evaluation:
    return evaluation()


def alone(document: Evaluation) -> Evaluation:
    """The same where the dense model was not asked."""
    one = document.tasks[0]
    bare = one.scores[0].model_copy(update={"dense": None, "difference": None, "ci95": None})
    names = ("same_answer", "prefill_speedup", "ttft_speedup", "total_speedup", *DENSE)
    task = one.model_copy(update={"scores": (bare,), **dict.fromkeys(names)})
    return document.model_copy(update={"tasks": (task,), "limit": 100})


DENSE = ("dense_tokens", "dense_prefill_ms", "dense_ttft_ms", "dense_total_ms")


def test_each_score_is_judged_by_the_interval_of_its_difference(document: Evaluation):
    assert sentences(pages.report(document)) == [
        "pope (errors): better than dense.",
        "pope (accuracy): worse than dense.",
        "pope (length): different from dense.",
        "pope (precision): not measurably different from dense.",
        "mme (points): the difference has no interval, so it may be chance.",
    ]


def test_the_scores_stand_side_by_side_with_their_difference(document: Evaluation):
    found = table(pages.report(document), "Dense and pruned")
    assert rows(found)[0] == ["pope", "accuracy", "0.8591", "0.8123", "−0.0468 [−0.0600, −0.0300]"]
    assert rows(found)[-1] == ["mme", "points", "1510.7", "1480.2", "−30.5"]
    assert [row[-1].tone for row in found.rows] == ["loss", "", "gain", "", ""]
    assert [row[0].text for row in found.rows] == ["pope", "", "", "", "mme"]


def test_the_chart_has_the_differences_that_have_an_interval(document: Evaluation):
    (chart,) = blocks(pages.report(document), Chart)
    (series,) = chart.series
    assert list(chart.x.names) == ["pope accuracy", "pope precision", "pope errors", "pope length"]
    assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))


def test_times_are_speed_ups_of_the_questions_with_a_picture(document: Evaluation):
    (row,) = rows(table(pages.report(document), "Speed-up, dense over pruned"))
    assert row == [
        "pope",
        "9\N{NARROW NO-BREAK SPACE}000",
        "33.4 %",
        "90.0 %",
        "1.37× [1.32, 1.42]",
        "1.02× [0.97, 1.07]",
    ]
    detail = table(pages.report(document), "Medians of both models")
    assert detail.detail
    assert rows(detail)[0] == ["pope", "2", "2", "41.0 ms", "30.0 ms", "44.0 ms", "33.0 ms", "61.0 ms", "60.0 ms"]


def test_without_the_dense_model_there_are_times_and_no_speed_ups(document: Evaluation):
    report = pages.report(alone(document))
    assert sentences(report) == ["The dense model was not asked, so there is nothing to compare with."]
    (row,) = rows(table(report, "Time of the pruned model alone"))
    assert row[3:] == ["–", "30.0 ms", "60.0 ms"]
    assert not blocks(report, Chart) and "the first 100 questions of a task" in report.facts


def test_without_a_timed_question_there_is_no_page_of_times(document: Evaluation):
    report = pages.report(document.model_copy(update={"tasks": document.tasks[1:]}))
    assert [page.id for page in report.pages] == ["scores"]
    assert [found.caption for found in blocks(report, Table)] == ["Dense and pruned"]


def test_terminal_and_page_show_the_same_report(document: Evaluation):
    report = pages.report(document)
    shown, html = in_terminal(report), render(report)
    for text in ("worse than dense", "0.8591", "mme"):
        assert text in shown and text in html
    assert not list(too_wide(report))
