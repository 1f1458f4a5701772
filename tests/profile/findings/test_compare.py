"""The pages of a comparison's report."""

import io

import pytest
from rich.console import Console

from tests.profile import examples
from trio_profile.analysis.compare import Comparison, compare
from trio_profile.analysis.doubt import Doubt
from trio_profile.findings import compare as pages
from trio_profile.findings.blocks import Chart, Sentences, Table, Terms
from trio_profile.records.estimate import Accuracy
from trio_profile.records.schema import Cell, Fidelity, Measurement
from trio_profile.render import html, terminal


def cell(method: str, prefill_ms: float, kl: float) -> Measurement:
    seen = {"fidelity": Fidelity(kl_nats=(kl,), top1=(kl < 0.3,)), "remark": "control" * (method == "random")}
    return examples.with_pairs(examples.measurement(method, 0.3), [examples.pair(100, prefill_ms)] * 6).model_copy(
        update=seen
    )


@pytest.fixture(scope="module")
def compared() -> Comparison:
    """Made-up medians without answers: trio is faster and farther, grid slower and nearer, random is beaten by both."""
    study = examples.study(("trio", "grid", "random", "vtw"), retentions=(0.3,), verb="compare")
    cells = [cell("random", 60, 0.4), cell("trio", 25, 0.2), cell("grid", 50, 0.1)]
    refused = examples.failed("vtw", 0.3, "cannot be reached").model_copy(update={"status": "refused"})
    return compare(study, examples.environment(), examples.dense(), [*cells, refused], sessions=[examples.session()])


@pytest.fixture(scope="module")
def answered() -> Comparison:
    """200 questions: one method loses 30 that trio answers and gains 5, one swaps four, one gains 20."""
    right = {
        "trio": [True] * 120 + [False] * 80,
        "random": [False] * 30 + [True] * 95 + [False] * 75,
        "lookahead": [False] * 4 + [True] * 120 + [False] * 76,
        "scope": [True] * 140 + [False] * 60,
    }
    kinds = ("1 hop", "2 hops") * 100
    dense = examples.dense().model_copy(update={"correct": (True,) * 150 + (False,) * 50, "kinds": kinds})

    def told(method: str, correct: list[bool]) -> Measurement:
        seen = Fidelity(kl_nats=(0.1,) * 200, top1=tuple(correct), same=tuple(correct), correct=tuple(correct))
        return examples.measurement(method, 0.3).model_copy(update={"fidelity": seen})

    study = examples.study(tuple(right), retentions=(0.3,), verb="compare")
    cells = [told(*pair) for pair in right.items()]
    return compare(study, examples.environment(), dense, cells, sessions=[examples.session()])


def tables(found: Comparison) -> list[Table]:
    return [block for page in pages.report(found).pages for block in page.blocks if isinstance(block, Table)]


def test_every_method_with_the_most_right_answers_is_named(answered: Comparison):
    perfect = Accuracy(value=1.0, ci95=(0.9812, 1.0), samples=200)
    rows = [row.model_copy(update={"accuracy": perfect}) if row.method != "random" else row for row in answered.rows]
    first, second, third = (row.method for row in answered.at(0.3) if row.method != "random")
    assert f"Most right answers: {first}, {second} and {third}, 100 % [98.1, 100]." in pages.sentences(
        answered.model_copy(update={"rows": rows}), 0.3
    )
    wider = perfect.model_copy(update={"ci95": (0.97, 1.0)})
    rows = [row.model_copy(update={"accuracy": wider}) if row.method == third else row for row in rows]
    told = pages.sentences(answered.model_copy(update={"rows": rows}), 0.3)
    assert f"Most right answers: {first}, {second} and {third}, 100 %." in told


def test_the_report_has_a_page_for_each_retention(compared: Comparison, answered: Comparison):
    assert [page.id for page in pages.report(compared).pages] == [
        "verdict",
        "at-0.3",
        "refused",
        "doubts",
        "study",
        "numbers",
    ]
    assert [page.id for page in pages.report(answered).pages] == [
        "verdict",
        "at-0.3",
        "answers",
        "refused",
        "doubts",
        "study",
        "numbers",
    ]


def test_sentences_name_the_fastest_method_and_the_closest(compared: Comparison):
    first, closest, beaten, *_ = pages.sentences(compared, 0.3)
    assert first.startswith("Fastest method at 30.0 %: trio, 4.0000×") and first.endswith(" over dense.")
    assert closest.startswith("Closest to dense: grid, mean KL 0.100 nats, prefill 2.0000×")
    assert beaten == "By mean KL, every method is closer to dense than random selection."


def test_a_control_is_never_the_fastest_method(compared: Comparison):
    rows = [
        row.model_copy(update={"remark": "control"}) if row.method in ("trio", "random") else row
        for row in compared.rows
    ]
    assert pages.sentences(compared.model_copy(update={"rows": rows}), 0.3)[0].startswith(
        "Fastest method at 30.0 %: grid, "
    )


def test_methods_that_random_selection_beats_are_named(compared: Comparison):
    rows = [
        row.model_copy(update={"kl_nats_mean": row.kl_nats_mean and row.kl_nats_mean.model_copy(update={"value": 0.5})})
        if row.method == "grid"
        else row
        for row in compared.rows
    ]
    told = pages.sentences(compared.model_copy(update={"rows": rows}), 0.3)
    assert "By mean KL, no closer to dense than random selection: grid." in told


def test_the_verdict_begins_with_what_to_do_and_one_chart_of_everything(compared: Comparison, answered: Comparison):
    for found in (compared, answered):
        what, chart, table, *_ = pages.verdict_page(found).blocks
        assert isinstance(what, Sentences) and isinstance(chart, Chart) and isinstance(table, Table)
        assert table.rows[-1][0].text == "random" or found is answered
    assert pages.verdict_page(compared).blocks[0].lines[0].startswith("By cost alone, trio at 30.0 % is fastest")


def test_sentences_compare_right_answers_with_the_reference(answered: Comparison):
    assert pages.sentences(answered, 0.3)[1:5] == [
        f"Most right answers: scope, 70 % [63, 76], with a prefill speed-up of {_speed(answered, 'scope')}.",
        "More right answers than trio, the paired interval above 0: scope.",
        "No measurable difference from trio in right answers: lookahead.",
        "Fewer right answers than trio, the paired interval below 0: random.",
    ]


def _speed(found: Comparison, method: str) -> str:
    row = next(row for row in found.rows if row.method == method)
    return pages._faster(row.prefill_speedup)


def test_a_table_has_answers_and_speed_first_and_the_rest_behind_a_click(compared: Comparison, answered: Comparison):
    bare, known = (pages.comparison_page(found, 0.3).blocks[1] for found in (compared, answered))
    assert isinstance(bare, Table) and isinstance(known, Table)
    assert list(known.columns[:7]) == ["Method", "right", "points lost", "prefill", "total", "MACs", "KV"]
    assert known.first == 7 and "changed answers" in known.columns[7:]
    assert list(bare.columns[:5]) == ["Method", "prefill", "total", "MACs", "KV"] and bare.first == 5
    assert [row[0].text for row in bare.rows] == ["trio", "grid", "random"]


def test_a_doubted_row_is_marked(compared: Comparison):
    doubt = Doubt(
        cell=Cell(method="grid", retention=0.3), kind="busy", sentence="s", next_step="n", found=2, threshold=1
    )
    table = pages.comparison_page(compared.model_copy(update={"doubts": [doubt]}), 0.3).blocks[1]
    assert isinstance(table, Table)
    assert {row[0].text: row[0].doubt for row in table.rows} == {"trio": "", "grid": "doubted: busy", "random": ""}


def test_a_doubted_row_is_marked_among_the_answers(answered: Comparison):
    assert answered.dense is not None
    doubt = Doubt(
        cell=Cell(method="scope", retention=0.3), kind="busy", sentence="s", next_step="n", found=2, threshold=1
    )
    blocks = pages.answers_page(answered.model_copy(update={"doubts": [doubt]}), answered.dense).blocks
    for table in blocks:
        assert isinstance(table, Table)
        assert [row[0].text for row in table.rows if any(entry.doubt for entry in row)] == ["scope"]


def test_the_verdict_has_the_cache_in_sight(compared: Comparison, answered: Comparison):
    for found, answers in ((compared, []), (answered, ["right", "points lost"])):
        table = pages.verdict_page(found).blocks[2]
        assert isinstance(table, Table)
        assert list(table.columns[: table.first]) == ["Method", "at", *answers, "prefill", "total", "MACs", "KV"]


def test_remarks_stand_below_the_tables(compared: Comparison):
    [remarks] = [block for block in pages.comparison_page(compared, 0.3).blocks if isinstance(block, Terms)]
    assert list(remarks.items) == [("random", "control")]


def test_every_row_is_as_wide_as_its_table(compared: Comparison, answered: Comparison):
    for table in (*tables(compared), *tables(answered)):
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.caption


def test_a_row_without_answers_is_as_wide_as_the_others(answered: Comparison):
    bare = {"accuracy": None, "accuracy_difference": None, "reference_difference": None}
    rows = [answered.rows[0].model_copy(update=bare), *answered.rows[1:]]
    page = pages.comparison_page(answered.model_copy(update={"rows": rows}), 0.3)
    table = [block for block in page.blocks if isinstance(block, Table)][-1]
    assert {len(row) for row in table.rows} == {len(table.columns)} and "right, to trio" in table.columns


def test_answers_stand_with_the_difference_to_the_reference(answered: Comparison):
    assert answered.dense is not None
    whole, kinds = pages.answers_page(answered, answered.dense).blocks
    assert isinstance(whole, Table) and isinstance(kinds, Table)
    assert [row[0].text for row in whole.rows] == ["dense", "scope", "lookahead", "trio", "random"]
    assert [[entry.text for entry in row] for row in whole.rows[2:4]] == [
        [name, "60 % [53, 67]"] for name in ("lookahead", "trio")
    ]
    assert [row[1].note for row in whole.rows] == [
        "",
        "+10.0 [+5.6, +14.2]",
        "+0.0 [−3.1, +3.1]",
        "",
        "−12.5 [−18.0, −6.7]",
    ]
    assert [row[1].tone for row in whole.rows] == ["", "gain", "", "", "loss"]
    assert list(kinds.columns) == ["Method", "1 hop", "2 hops"] and len(kinds.rows) == 5


def test_what_could_not_be_run_has_its_reason(compared: Comparison, answered: Comparison):
    [table] = pages.refusals_page(compared).blocks
    assert isinstance(table, Table)
    assert [[entry.text for entry in row] for row in table.rows] == [["vtw", "30.0 %", "refused: cannot be reached"]]
    [sentence] = pages.refusals_page(answered).blocks
    assert isinstance(sentence, Sentences) and sentence.lines == ["Every method that was asked for ran."]


def test_the_terminal_shows_a_comparison_in_80_columns(answered: Comparison):
    out = io.StringIO()
    terminal.show(pages.report(answered), console=Console(file=out, width=80, highlight=False))
    text = out.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "Use " in text or "Do not prune here" in text
    assert "points to trio" in text and "By kind of question" not in text


def test_the_page_escapes_names(compared: Comparison):
    name = {"method": "<script>alert(1)</script>"}
    study = compared.study.model_copy(update={"methods": (*compared.study.methods, name["method"])})
    rows = [*compared.rows, *(row.model_copy(update=name) for row in (compared.at(0.3)[0], compared.rows[-1]))]
    text = html.render(pages.report(compared.model_copy(update={"rows": rows, "study": study})))
    assert "<script>alert(1)" not in text and "&lt;script&gt;alert(1)" in text


def test_the_counted_factor_stands_beside_gamma_and_below_1_it_is_no_gamma():
    study = examples.study(("trio", "random"), retentions=(0.3,), verb="compare")
    cells = [
        examples.measurement("trio", 0.3, selection_forwards=0.21),
        examples.measurement("random", 0.3).model_copy(update={"fastv_overhead_macs": 0}),
    ]
    found = compare(study, examples.environment(), examples.dense(), cells, sessions=[examples.session()])
    assert pages.sentences(found, 0.3)[-1] == (
        "The formula takes γ = 1. Overhead factors by count: trio 0.210. A factor below 1 is no γ of the paper, which "
        "is 1 + β."
    )
    table = next(table for table in tables(found) if "tokens kept" in table.columns and "at" not in table.columns)
    at = [table.columns.index(name) for name in ("overhead factor", "f(n) with the factor", "tokens kept")]
    trio, random = sorted(table.rows, key=lambda row: row[0].text, reverse=True)
    assert [trio[place].text for place in at] == ["0.210", "31 %", "309, 182, 74"]
    assert [random[place].text for place in at[:2]] == ["–", "–"]


def test_budgets_near_full_retention_are_a_reminder():
    study = examples.study(("trio", "random"), retentions=(0.3, 0.77), verb="compare")
    cells = [examples.measurement(cell.method, cell.retention) for cell in study.cells()]
    found = compare(study, examples.environment(), examples.dense(), cells, sessions=[examples.session()])
    reminders = next(block for block in pages.verdict_page(found).blocks if getattr(block, "tone", "") == "doubt")
    assert "cannot keep their proportion" in reminders.lines[0] and "trio" in found.clamped_above
