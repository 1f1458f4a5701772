"""The report of the paper's theory, tested: from a document made by hand, and from the published one."""

from pathlib import Path

import numpy as np
import pytest

from tests.profile.extras.theory.kept import removal, theory_document
from tests.profile.reading import blocks, in_terminal, rows, sentences, table, terms, too_wide
from trio_profile.extras.theory import document as analysis
from trio_profile.extras.theory import report as pages
from trio_profile.extras.theory.document import Correlation, Count, Overlap, TheoryDocument, TokenShare
from trio_profile.findings.blocks import Chart, Table
from trio_profile.render import latex, markdown, render

PUBLISHED = Path(__file__).parents[4] / "reports" / "pocket" / "theory" / "theory.json"


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


def with_shares(document: TheoryDocument, **shares: tuple[float, ...]) -> TheoryDocument:
    """The document with these shares above the mean at its layers. all: over all questions; others: by benchmark."""

    def exactly(value: float) -> TokenShare:
        return TokenShare(value=value, ci95=(value, value), samples=10)

    layers = []
    for index, layer in enumerate(document.layers):
        own = {name: exactly(values[index]) for name, values in shares.items() if name != "all"}
        fields = {"above_mean_share": exactly(shares["all"][index]), "above_mean_share_by_benchmark": own}
        counts = {name: Count(value=1, ci95=(1, 1), samples=10) for name in own}
        layers.append(layer.model_copy(update={**fields, "above_mean_by_benchmark": counts}))
    return document.model_copy(update={"layers": tuple(layers)})


def test_the_largest_step_of_the_share_is_named(document: TheoryDocument):
    said = sentences(pages.report(with_shares(document, all=(0.6, 0.2, 0.25, 0.3))))[-1]
    assert said == (
        "The share of visual tokens above the mean changes most from layer 1 to layer 2: "
        "it falls from 60.0 % to 20.0 %."
    )


def test_each_benchmark_has_its_largest_step(document: TheoryDocument):
    falls, rises = (0.6, 0.2, 0.25, 0.3), (0.2, 0.2, 0.2, 0.5)
    same = with_shares(document, all=falls, pope=falls, gqa=falls)
    assert sentences(pages.report(same))[-1] == "It is the same step for gqa and pope."
    # Without several files they are kinds, which are sorted by name.
    other = with_shares(document, all=falls, pope=rises, gqa=falls, mme=rises)
    assert sentences(pages.report(other))[-1] == (
        "The largest change is from layer 1 to layer 2 for gqa, and from layer 3 to layer 4 for mme and pope."
    )


def test_each_benchmark_has_a_curve_a_column_and_its_questions():
    """Two kinds of question, and one with too few of them."""
    document = theory_document(["what"] * 10 + ["count"] * 11 + ["why"] * 3, tokens=30)
    report = pages.report(document)
    assert "20 to 30 visual tokens" in report.facts
    assert "An interval needs 10 questions, so there is no curve for why (3)." in sentences(report)
    *_, chart = blocks(report, Chart)
    assert [series.name for series in chart.series] == ["all questions", "count", "what"]
    first = document.layers[0].above_mean_share_by_benchmark["what"]
    assert (chart.series[2].y[0], chart.series[2].low[0]) == (100 * first.value, 100 * first.ci95[0])
    assert rows(table(report, "Questions by kind"))[-1] == ["why", "3", "3", "20 to 30"]
    shares = table(report, "Share of visual tokens above the mean saliency, by kind")
    assert list(shares.columns) == ["layer", "all questions", "count", "what"] and len(shares.rows) == 4
    assert f'The table "{shares.caption}"' in chart.label and not shares.detail
    assert table(report, "Number of visual tokens above the mean saliency, by kind").detail
    for drawn in (render(report), markdown.markdown(report), latex.latex(report)):
        assert "all questions" in drawn and "Share of visual tokens above the mean saliency, by kind" in drawn


def test_curves_of_several_files_are_called_benchmarks():
    document = theory_document(["pope"] * 10 + ["gqa"] * 10)
    study = document.study.model_copy(update={"questions": ("pope.jsonl", "gqa.jsonl")})
    report = pages.report(document.model_copy(update={"study": study}))
    shown = in_terminal(report)
    assert [row[0] for row in rows(table(report, "Questions by benchmark"))] == ["pope", "gqa"]  # as the files
    assert "A curve for each benchmark" in " ".join(shown.split())


def test_one_benchmark_alone_has_no_table(document: TheoryDocument):
    captions = [found.caption for found in blocks(pages.report(document), Table)]
    assert not any("by kind" in caption for caption in captions)
    few = theory_document(["what"] * 5 + ["why"] * 5)
    captions = [found.caption for found in blocks(pages.report(few), Table)]
    assert "Questions by kind" in captions and not any("Share of" in caption for caption in captions)


def test_an_old_document_has_the_share_of_the_first_questions_tokens(document: TheoryDocument):
    layers = tuple(layer.model_copy(update={"above_mean_share": None}) for layer in document.layers)
    old = document.model_copy(update={"layers": layers, "visual_tokens_range": None})
    new, same = (blocks(pages.report(one), Chart)[-1].series[0] for one in (document, old))
    assert list(same.y) == pytest.approx(list(new.y)) and list(same.low) == pytest.approx(list(new.low))
    assert "20 visual tokens" in pages.report(old).facts


def test_many_numbers_of_kept_tokens_become_a_range(document: TheoryDocument):
    stage = document.stages[0].model_copy(update={"kept": tuple(range(5, 40))})
    found = table(
        pages.report(document.model_copy(update={"stages": (stage,)})), "Every correlation, and the bound's constant"
    )
    assert rows(found)[0][1] == "5 to 39"


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
