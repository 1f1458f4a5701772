"""The report of the paper's theory, tested: from a document made by hand, and from the published one."""

from pathlib import Path

import numpy as np
import pytest

from tests.profile.kinds.theory.kept import removal, theory_document
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, too_wide
from trio_profile.kinds.theory import document as analysis
from trio_profile.kinds.theory import report as pages
from trio_profile.kinds.theory.document import MeanShare, TheoryDocument
from trio_profile.records.documents import read_document
from trio_profile.report import latex, markdown
from trio_profile.report.blocks import Chart
from trio_profile.report.html import render

PUBLISHED = Path(__file__).parents[4] / "reports" / "pocket" / "theory" / "theory.json"


@pytest.fixture
def document() -> TheoryDocument:
    return theory_document()


def test_there_is_a_page_for_each_claim_of_the_paper(document: TheoryDocument):
    report = pages.report(document)
    assert [page.id for page in report.pages] == ["bound", "agreement", "counts"]
    html = render(report)
    assert "after layer 1" in html and "figure-bound" in html and "1.00 [1.00, 1.00]" in html


def test_each_benchmark_has_a_curve_a_column_and_its_questions():
    """Two kinds of question, and one with too few of them."""
    document = theory_document(["what"] * 10 + ["count"] * 11 + ["why"] * 3, tokens=30)
    report = pages.report(document)
    assert "20 to 30 visual tokens" in report.facts
    assert "An interval needs 10 questions, so there is no curve for why (3)." in sentences(report)
    *_, chart = blocks(report, Chart)
    assert [series.name for series in chart.series] == ["all questions", "what", "count"]
    first = document.layers[0].above_mean_share_by_benchmark["what"]
    assert (chart.series[1].y[0], chart.series[1].low[0]) == (100 * first.value, 100 * first.ci95[0])
    assert rows(table(report, "Questions of each curve"))[-1] == ["why", "3", "3", "20 to 30"]
    shares = table(report, "Saliency by depth, 20 to 30 visual tokens")
    assert list(shares.columns[-3:]) == ["share above the mean", "share, what", "share, count"]
    assert len(shares.rows) == 4 and '"Saliency by depth"' in chart.label
    for drawn in (render(report), markdown.markdown(report), latex.latex(report)):
        assert "share, what" in drawn


def test_a_report_of_nothing_that_varies_says_so(document: TheoryDocument):
    still = analysis.stage(1, [removal(q, 9, 0, 0, 0) for q in range(10) for _ in range(3)])
    flat = analysis.by_depth([np.ones((1, 20))] * 10, [np.ones((1, 20))] * 10)
    poor = document.model_copy(update={"stages": (still,), "layers": flat})
    stage, depth, count = sentences(pages.report(poor))
    assert "nothing was removed" in stage and depth.startswith("No layer's saliency") and "one layer" in count
    assert rows(table(pages.report(poor), "Rank correlation of the bound's term with the divergence")) == [
        ["1", "–", "–", "–", "–", "–"]
    ]
    assert render(pages.report(poor))


def test_removals_without_a_place_on_a_logarithmic_axis_are_left_out(document: TheoryDocument):
    removals = (removal(0, 5, 0, 1, 0), removal(0, 5, 2, 1, 0), removal(2, 5, 2, 1, 0.25))
    stage = document.stages[0].model_copy(update={"removals": removals})
    chart = blocks(pages.report(document.model_copy(update={"stages": (stage,)})), Chart)[0]
    (series,) = chart.series
    assert (list(series.x), list(series.y)) == ([2], [0.25]) and chart.x.log and chart.y.log
    assert series.text == ["random\nquestion 3, 5 tokens kept\nterm 2, KL 0.25 nats"]


def test_layers_without_a_value_have_no_point(document: TheoryDocument):
    first, *rest = document.layers
    gap = first.model_copy(
        update={"last_layer_agreement": None, "top_overlap": MeanShare(value=0.5, ci95=(0.4, 0.6), samples=10)}
    )
    chart = blocks(pages.report(document.model_copy(update={"layers": (gap, *rest)})), Chart)[1]
    correlation, overlap, chance = chart.series
    assert list(correlation.x) == [2, 3, 4] and list(overlap.x) == [1, 2, 3, 4]
    assert set(chance.y) == {analysis.TOP}
    assert chart.uprights == [1.5]


def test_the_published_report_fits_the_terminal():
    report = pages.report(read_document(PUBLISHED, TheoryDocument))
    shown = in_terminal(report)
    assert "Agreement with" in shown and "0.29 [0.21, 0.36]" in shown
    assert not list(too_wide(report))
