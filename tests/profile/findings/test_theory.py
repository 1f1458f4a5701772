"""The report of the paper's theory, tested: from a document made by hand, and from the published one."""

from pathlib import Path

import numpy as np
import pytest

from tests.profile.documents import removal, theory_document
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, terms, too_wide
from trio_profile.analysis import theory as analysis
from trio_profile.analysis.theory import TheoryDocument
from trio_profile.findings import theory as pages
from trio_profile.findings.blocks import Chart, Table
from trio_profile.records.estimate import Correlation, Count, Overlap
from trio_profile.render import render

PUBLISHED = Path(__file__).parents[3] / "reports" / "pocket" / "theory" / "theory.json"


@pytest.fixture
def document() -> TheoryDocument:
    return theory_document()


def with_same_kept(document: TheoryDocument, low: float, high: float) -> str:
    """The first sentence if the correlation among equal numbers of tokens has this interval."""
    found = Correlation(value=(low + high) / 2, ci95=(low, high), samples=10)
    stage = document.stages[0].model_copy(update={"same_kept": found})
    return sentences(pages.report(document.model_copy(update={"stages": (stage,)})))[0]


def test_a_page_of_an_interrupted_study_says_how_many_questions_it_is_of(document: TheoryDocument):
    part = document.model_copy(update={"planned": 30})
    report = pages.report(part)
    assert "10 of 30 questions" in report.facts
    assert sentences(report)[0].startswith("The study was interrupted: 10 of 30 questions are measured")
    for whole in (document, document.model_copy(update={"planned": 10})):
        assert "10 questions" in pages.report(whole).facts
        assert not any("interrupted" in sentence for sentence in sentences(pages.report(whole)))


def test_there_is_a_page_for_each_claim_of_the_paper(document: TheoryDocument):
    report = pages.report(document)
    assert [page.id for page in report.pages] == ["bound", "agreement", "counts"]
    html = render(report)
    assert "After layer 1" in html and "figure-bound" in html and "1.00 [1.00, 1.00]" in html


def test_the_sentence_on_a_stage_follows_its_interval(document: TheoryDocument):
    assert "a larger term goes with a larger divergence" in with_same_kept(document, 0.1, 0.3)
    assert "a larger term goes with a smaller divergence" in with_same_kept(document, -0.3, -0.1)
    assert "does not tell which selection diverges more" in with_same_kept(document, -0.1, 0.1)
    assert pages.sentences(document) == sentences(pages.report(document))


def test_the_sentence_on_a_stage_names_both_correlations(document: TheoryDocument):
    said = with_same_kept(document, 0.1, 0.3)
    assert said.startswith("After layer 1, the bound's term and the divergence have a rank correlation of ")
    assert "Among selections of equal size it is 0.20 [0.10, 0.30]: a larger term" in said


def test_charts_name_a_table_that_exists(document: TheoryDocument):
    report = pages.report(document)
    _, agreement, counts = blocks(report, Chart)
    assert any(found.caption.startswith("Saliency by depth") for found in blocks(report, Table))
    assert all('The table "Saliency by depth"' in chart.label for chart in (agreement, counts))


def test_the_sentence_on_depth_names_the_lowest_layer_and_the_trend(document: TheoryDocument):
    layers = tuple(
        layer.model_copy(
            update={"last_layer_agreement": Correlation(value=value, ci95=(value - 0.1, value + 0.1), samples=10)}
        )
        for layer, value in zip(document.layers, (0.5, 0.2, 0.4, 1.0), strict=True)
    )
    for value, course in ((0.5, "it grows"), (-0.5, "it falls"), (0.0, "it neither grows nor falls")):
        trend = Correlation(value=value, ci95=(value - 0.1, value + 0.1), samples=10)
        found = document.model_copy(update={"layers": layers, "agreement_trend": trend})
        said = sentences(pages.report(found))[1]
        assert "0.20 [0.10, 0.30] at layer 2 (the lowest)" in said and f"With depth {course}" in said
        assert "layer 4" not in said  # the last layer agrees with itself


def test_the_largest_step_of_the_count_is_named(document: TheoryDocument):
    counts = (12.0, 4.0, 5.0, 6.0)
    layers = tuple(
        layer.model_copy(update={"above_mean": Count(value=value, ci95=(value, value), samples=10)})
        for layer, value in zip(document.layers, counts, strict=True)
    )
    said = sentences(pages.report(document.model_copy(update={"layers": layers})))[-1]
    assert said == ("The count above the mean changes most from layer 1 to layer 2: it falls by 8 of 20 tokens.")


def test_a_report_of_nothing_that_varies_says_so(document: TheoryDocument):
    still = analysis.stage(1, [removal(q, 9, 0, 0, 0) for q in range(10) for _ in range(3)])
    flat = analysis.by_depth([np.ones((1, 20))] * 10, [np.ones((1, 20))] * 10)
    poor = document.model_copy(update={"stages": (still,), "layers": flat})
    stage, depth, count = sentences(pages.report(poor))
    assert "nothing was removed" in stage and depth.startswith("No layer's saliency") and "one layer" in count
    assert rows(table(pages.report(poor), "Rank correlation of the bound's term with the divergence")) == [
        ["1", "–", "–", "–"]
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
    gap = first.model_copy(update={"last_layer_agreement": None, "top_overlap": _overlap(0.5)})
    chart = blocks(pages.report(document.model_copy(update={"layers": (gap, *rest)})), Chart)[1]
    correlation, overlap, chance = chart.series
    assert list(correlation.x) == [2, 3, 4] and list(overlap.x) == [1, 2, 3, 4]
    assert set(chance.y) == {analysis.TOP}
    assert [upright.x for upright in chart.uprights] == [1.5]


def _overlap(value: float) -> Overlap:
    return Overlap(value=value, ci95=(value - 0.1, value + 0.1), samples=10)


def test_every_correlation_and_the_constant_stand_in_the_detail(document: TheoryDocument):
    found = table(pages.report(document), "Every correlation, and the bound's constant")
    assert found.detail and rows(found)[0][1] == "5, 9"
    assert "least C" in terms(pages.report(document))


def test_the_published_report_fits_the_terminal():
    report = pages.report(TheoryDocument.model_validate_json(PUBLISHED.read_bytes()))
    shown = in_terminal(report)
    assert "agrees with" in shown and "0.29 [0.21, 0.36]" in shown
    assert not list(too_wide(report))
