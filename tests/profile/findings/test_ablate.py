"""The pages of a report of ablations."""

import io

import pytest
from rich.console import Console

from tests.profile import examples
from trio_profile.analysis.ablate import Ablation, ablate
from trio_profile.analysis.doubt import Doubt
from trio_profile.findings import ablate as pages
from trio_profile.findings import ablate_charts
from trio_profile.findings.blocks import Chart, Sentences, Table
from trio_profile.records.estimate import Ratio
from trio_profile.records.schema import Cell, Dense
from trio_profile.render import html, terminal


@pytest.fixture(scope="module")
def known() -> Ablation:
    return examples.ablation()


@pytest.fixture(scope="module")
def unanswered(known: Ablation) -> Ablation:
    default = examples.measurement()
    changed = default.model_copy(update={"cell": Cell(method="trio", retention=0.11, options={"k_pos": 1})})
    return ablate(
        known.study, examples.environment(), examples.dense(), [default, changed], sessions=[examples.session()]
    )


def refused(known: Ablation) -> Ablation:
    """The same with a variant that could not be run, and whose name looks like markup."""
    group = known.groups[0]
    row = group.rows[0].model_copy(update={"variant": "<script>alert(1)</script>", "status": "failed", "reason": "<b>"})
    return known.model_copy(update={"groups": [group.model_copy(update={"rows": [*group.rows, row]})]})


def tables(found: Ablation) -> list[Table]:
    return [block for page in pages.report(found).pages for block in page.blocks if isinstance(block, Table)]


def test_sentences_say_what_stands_out(known: Ablation):
    assert pages.sentences(known.groups[0], 0.11) == [
        "With k_pos = 1, 12.5 points fewer right answers than the default [−18.0, −6.7].",
        "No measurable difference from the default in right answers: 2.",
        "No measurable difference in prefill time.",
    ]


def test_two_variants_that_differ_in_time_are_told_though_a_third_is_uncertain(known: Ablation):
    """The least median, 1.4×, is that of an interval which holds all others."""
    speeds = [(2.2, (2.1, 2.3)), (1.5, (1.4, 1.6)), (1.4, (0.3, 2.3))]
    rows = [
        row.model_copy(update={"prefill_speedup": Ratio(median=middle, ci95=ci95, samples=20, stopped="budget")})
        for row, (middle, ci95) in zip(known.groups[0].rows, speeds, strict=True)
    ]
    [told] = pages._speeds(rows)
    fast, slow = rows[0].variant, rows[1].variant
    assert told == f"Prefill is faster with {fast}, 2.20× [2.10, 2.30] over dense, than with {slow}, 1.5× [1.4, 1.6]."
    assert pages._speeds(rows[1:]) == ["No measurable difference in prefill time."]


def test_a_default_that_was_not_measured_is_not_compared_with():
    study = examples.study(verb="ablate", retentions=(0.11,), ablations={"k_pos": {"1": {"k_pos": 1}, "4": {}}})
    dense = Dense(**{**dict(examples.dense()), "correct": (True,) * 20})
    found = ablate(study, examples.environment(), dense, [examples.answering({"k_pos": 1}, [True] * 20)])
    assert pages.sentences(found.groups[0], 0.11) == []


def test_the_report_has_a_page_for_each_group(known: Ablation):
    assert [page.id for page in pages.report(known).pages] == ["k_pos", "refused", "doubts", "study", "numbers"]
    kinds = [type(block) for block in pages.report(known).pages[0].blocks]
    assert kinds == [Sentences, Table, Chart, Chart, Chart, Table, Sentences]


def test_the_summary_compares_with_the_default(known: Ablation):
    summary = tables(known)[0]
    assert list(summary.columns[: summary.first]) == [
        *("k_pos", "right", "points to default", "prefill", "total", "MACs", "KV"),
    ]
    assert list(summary.columns[7:]) == ["mean KL, nats", "95th percentile", "median KL"]
    assert [(row[0].text, row[0].note) for row in summary.rows] == [("1", ""), ("2", ""), ("4", "default")]
    assert [row[2].text for row in summary.rows] == ["−12.5 [−18.0, −6.7]", "+0.0 [−3.1, +3.1]", "–"]


def test_the_detailed_table_has_what_the_paper_prints(known: Ablation):
    table = tables(known)[1]
    assert "95th percentile" in table.columns
    assert table.detail and "The paper's column is for LLaVA-1.5-7B at 64 tokens" in table.caption
    assert [row[-1].text for row in table.rows] == ["92.1", "94.6", "94.9"]


def test_every_row_is_as_wide_as_its_table(known: Ablation, unanswered: Ablation):
    for table in (*tables(known), *tables(unanswered)):
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.caption


def test_what_could_not_be_run_has_its_reason(known: Ablation):
    [table] = pages.refusals_page(refused(known)).blocks
    assert isinstance(table, Table) and table.rows[0][-1].text == "failed: <b>"
    [sentence] = pages.refusals_page(known).blocks
    assert isinstance(sentence, Sentences) and sentence.lines == ["Every variant that was asked for ran."]


def test_the_page_escapes_names(known: Ablation):
    text = html.render(pages.report(refused(known)))
    assert (
        "<script>alert(1)" not in text and "<b>" not in text.split("<main>")[1].split("</main>")[0].split("<script")[0]
    )


def test_the_terminal_shows_ablations_in_80_columns(known: Ablation):
    out = io.StringIO()
    terminal.show(pages.report(known), console=Console(file=out, width=80, highlight=False))
    text = out.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "k_pos at 11.0 %" in text and "4 default" in text and "same answer" not in text


def test_without_answers_the_mean_kl_stays_in_sight(unanswered: Ablation):
    summary = tables(unanswered)[0]
    assert list(summary.columns[: summary.first]) == ["k_pos", "prefill", "total", "MACs", "KV", "mean KL, nats"]


def test_a_doubted_variant_is_marked(known: Ablation):
    cell = Cell(method="trio", retention=0.11, options={"k_pos": 2})
    doubt = Doubt(cell=cell, kind="busy", sentence="s", next_step="n", found=2, threshold=1)
    for table in tables(known.model_copy(update={"doubts": [doubt]}))[:2]:
        assert [row[0].doubt for row in table.rows] == ["", "doubted: busy", ""]


# The charts


def test_charts_have_a_place_for_each_variant(known: Ablation):
    group = known.groups[0]
    assert known.dense is not None
    right = ablate_charts.answers(group, 0.11, known.dense)
    for chart in (right, ablate_charts.closeness(group, 0.11), ablate_charts.speedup(group, 0.11)):
        [points] = chart.series
        assert list(chart.x.names) == ["1", "2", "4"] and list(points.x) == [0, 1, 2]
        assert list(points.hollow) == [True, True, False]
        assert all(a <= y <= b for a, y, b in zip(points.low, points.y, points.high, strict=True))
    assert list(right.levels) == [75] and right.series[0].text[2] == "4, the default\nright 60 % [53, 67]"


def test_the_notes_of_a_variant_stand_under_its_tables(known: Ablation):
    group = known.groups[0]
    noted = [row.model_copy(update={"notes": ("other code ran",)}) if row.default else row for row in group.rows]
    page = pages.group_page(known, group.model_copy(update={"rows": noted}))
    (default,) = {row.variant for row in noted if row.notes}
    lines = [line for block in page.blocks if isinstance(block, Sentences) for line in block.lines]
    assert f"{default}: other code ran." in lines
