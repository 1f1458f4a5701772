"""The report of a comparison: one table of all methods and retentions."""

import pytest

from tests.profile import examples
from tests.profile.kinds.grid.test_compare import answered as with_answers
from tests.profile.kinds.grid.test_compare import made_up, timed
from tests.profile.reading import in_terminal, sentences, too_wide
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.grid import compare_report as pages
from trio_profile.kinds.grid.compare import Comparison, compare
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Chart, Sentences, Table

compared = pytest.fixture(made_up, scope="module")
answered = pytest.fixture(with_answers, scope="module")


def table_of(found: Comparison) -> Table:
    return next(block for block in pages.verdict_page(found).blocks if isinstance(block, Table))


def test_only_the_verdict_is_in_sight(compared: Comparison, answered: Comparison):
    last = ["doubts", "study", "numbers"]
    for found, ids in ((compared, ["verdict", *last]), (answered, ["verdict", "kinds", *last])):
        report = pages.report(found)
        assert [page.id for page in report.pages] == ids
        assert [page.id for page in report.pages if not page.folded] == ["verdict"]
        what, chart, table, *_ = report.pages[0].blocks
        assert isinstance(what, Sentences) and isinstance(chart, Chart) and isinstance(table, Table)


def test_one_table_has_all_retentions_and_a_switch(compared: Comparison):
    table = table_of(compared)
    at = [table.columns.index(name) for name in ("Retention", "licence", "trained?")]
    assert [(row[0].text, row[0].note, *(row[place].text for place in at)) for row in table.rows] == [
        ("trio", "", "30.0 %", "none stated", "no"),
        ("grid", "", "30.0 %", "ours", "no"),
        ("random", "control", "30.0 %", "ours", "no"),
        ("trio", "", "77.0 %", "none stated", "no"),
    ]
    assert (table.switch, table.chosen) == (1, "30.0 %")
    assert "vtw at 30.0 % refused: cannot be reached." in sentences(pages.report(compared))


def test_answers_and_speed_are_in_sight_and_the_rest_behind_a_click(compared: Comparison, answered: Comparison):
    for found, answers in ((compared, []), (answered, ["right", "points lost"])):
        table = table_of(found)
        in_sight = ["Method", "Retention", *answers, "prefill", "total", "MACs", "KV", "licence", "trained?"]
        assert list(table.columns[: table.first]) == in_sight


def test_the_terminal_has_the_verdict_and_the_table_in_40_lines():
    names = tuple(f"method-{number}" for number in range(30))
    cells = [timed(name, 20 + number, 0.1) for number, name in enumerate(names)]
    study = examples.study(names, retentions=(0.3,), verb="compare")
    report = pages.report(compare(examples.contents_of(study, cells, examples.dense())))
    text = in_terminal(report)
    assert "16 of 30 rows" in text and "method-15" in text and "method-16" not in text.partition("Keep in mind")[0]
    assert len(text.splitlines()) <= 40
    assert "method-29" in in_terminal(report, everything=True)


def test_answers_stand_with_the_difference_to_the_reference(answered: Comparison):
    table = table_of(answered)
    place = table.columns.index("points to trio")
    assert {row[0].text: (row[place].text, row[place].tone) for row in table.rows} == {
        "scope": ("+10.0 [+5.6, +14.2]", "gain"),
        "lookahead": ("+0.0 [−3.1, +3.1]", ""),
        "trio": ("–", ""),
        "random": ("−12.5 [−18.0, −6.7]", "loss"),
    }
    [kinds] = pages.kinds_page(answered).blocks
    assert isinstance(kinds, Table) and list(kinds.columns[2:]) == ["1 hop", "2 hops"] and len(kinds.rows) == 5


def test_the_counted_factor_stands_beside_the_formula():
    study = examples.study(("trio", "random"), retentions=(0.3,), verb="compare")
    bare = examples.measurement("random", 0.3).model_copy(update={"fastv_overhead_macs": 0})
    cells = [examples.measurement("trio", 0.3, selection_forwards=0.21), bare]
    table = table_of(compare(examples.contents_of(study, cells, examples.dense())))
    at = [table.columns.index(name) for name in ("overhead factor", "tokens kept")]
    trio, _ = sorted(table.rows, key=lambda row: row[0].text, reverse=True)
    assert [trio[place].text for place in at] == ["0.210", "309, 182, 74"]


def test_a_doubt_marks_only_a_row_whose_conclusion_it_could_turn(answered: Comparison):
    def marked(low: float, high: float) -> list[str]:
        rows = [
            row.model_copy(update={"prefill_speedup": row.prefill_speedup.model_copy(update={"ci95": (low, high)})})
            for row in answered.rows
            if row.prefill_speedup is not None
        ]
        doubt = Doubt(
            cell=Cell(method="scope", retention=0.3), kind="busy", sentence="s", next_step="n", found=2, threshold=1
        )
        table = table_of(answered.model_copy(update={"doubts": [doubt], "rows": rows}))
        return [row[0].text for row in table.rows if any(entry.doubt for entry in row)]

    assert marked(0.5, 9) == ["scope"] and marked(1.9, 2.1) == []


def test_the_terminal_shows_the_chosen_retention_in_80_columns(compared: Comparison, answered: Comparison):
    assert not list(too_wide(pages.report(answered))) and not list(too_wide(pages.report(compared)))
    text = in_terminal(pages.report(compared))
    assert "77.0 %" not in text and "77.0 %" in in_terminal(pages.report(compared), everything=True)
