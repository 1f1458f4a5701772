"""The kind `compare`: one document of methods side by side, and what is refused."""

import json

import pytest

from tests.profile import examples
from tests.profile.reading import in_terminal, sentences, too_wide
from trio_profile.cli import run
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.grid import compare as pages
from trio_profile.kinds.grid.compare import Comparison, compare
from trio_profile.kinds.grid.kind import CONTROLS
from trio_profile.records.schema import Cell, Fidelity, Measurement, Study
from trio_profile.records.timing import Round, Timed
from trio_profile.report.blocks import Table


def timed(method: str, prefill_ms: float, kl: float, retention: float = 0.3) -> Measurement:
    """A cell with this prefill beside 100 ms dense, and with one question."""
    seen = {"fidelity": Fidelity(kl_nats=(kl,), top1=(kl < 0.3,)), "remark": "control" * (method == "random")}
    pairs = [examples.pair(100, prefill_ms)] * 6
    return examples.with_pairs(examples.measurement(method, retention), pairs).model_copy(update=seen)


def made_up() -> Comparison:
    """Medians without answers: trio is faster and farther, grid slower and nearer, random is beaten by both."""
    study = examples.study(("trio", "grid", "random", "vtw"), retentions=(0.3, 0.77), verb="compare")
    cells = [timed("random", 60, 0.4), timed("trio", 25, 0.2), timed("grid", 50, 0.1), timed("trio", 70, 0.1, 0.77)]
    refused = examples.failed("vtw", 0.3, "cannot be reached").model_copy(update={"status": "refused"})
    return compare(examples.contents_of(study, [refused, *cells], examples.dense()))


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
    study = examples.study(tuple(right), retentions=(0.3,), verb="compare")
    cells = [
        examples.measurement(method, 0.3).model_copy(update={"fidelity": examples.right_answers(correct)})
        for method, correct in right.items()
    ]
    return compare(examples.contents_of(study, cells, dense))


def test_rows_are_sorted_by_speedup_with_what_is_refused_last():
    rows = made_up().rows
    assert [row.method for row in rows if row.nominal_retention == 0.3] == ["trio", "grid", "random", "vtw"]
    assert (rows[-1].status, rows[-1].reason) == ("refused", "cannot be reached")


def test_answers_are_paired_with_the_reference_method():
    found = answered()
    assert found.reference == "trio"
    apart = {row.method: row.reference_difference for row in found.rows}
    assert apart.pop("trio") is None
    assert {method: seen and seen.value for method, seen in apart.items()} == pytest.approx(
        {"random": -0.125, "lookahead": 0.0, "scope": 0.1}
    )
    study = examples.study(("scope", "random"), retentions=(0.3,))
    assert compare(examples.contents_of(study, [], examples.dense())).reference == "scope"


@pytest.mark.slow
def test_the_verb_adds_the_controls_and_report_rebuilds_it(tiny_study: Study, without_fvcore, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--model", tiny_study.model, "--image", tiny_study.image, "--prompt", "What?", "--new-tokens", "2"]
    asked = ["--method", "trio", "--retention", "0.4,0.5", "--seconds", "0.01", "--processes", "1"]
    assert run(["compare", *options, *asked, "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in document["rows"]} == {"trio", *CONTROLS}
    trio = next(row for row in document["rows"] if row["method"] == "trio" and row["status"] == "done")
    assert len(document["rows"]) == 6 and trio["selection_ms"]["median"] > 0
    assert trio["kl_nats_mean"]["samples"] == 1  # a picture of one's own is the only one
    first = (out / "report.html").read_text()
    assert run(["report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == document["rows"]
    assert (out / "report.html").read_text() == first
    assert run(["compare", *options, *asked, "--out", str(out)]) == 0
    assert "random" in capsys.readouterr().out


compared = pytest.fixture(made_up, scope="module")
answered_cells = pytest.fixture(answered, scope="module")


def table_of(found: Comparison) -> Table:
    return next(block for block in pages.verdict_page(found).blocks if isinstance(block, Table))


def test_only_the_verdict_is_in_sight(compared: Comparison, answered_cells: Comparison):
    last = ["doubts", "study", "numbers"]
    for found, ids in ((compared, ["verdict", *last]), (answered_cells, ["verdict", "kinds", *last])):
        report = pages.report(found)
        assert [page.id for page in report.pages] == ids
        assert [page.id for page in report.pages if not page.folded] == ["verdict"]
        assert isinstance(report.pages[0].blocks[0], Table)


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


def test_answers_and_speed_are_in_sight_and_the_rest_behind_a_click(compared: Comparison, answered_cells: Comparison):
    for found, lost, right in ((compared, "mean KL, nats", []), (answered_cells, "points lost", ["right"])):
        table = table_of(found)
        in_sight = ["Method", "Retention", "prefill", lost, "KV", "total", *right, "licence"]
        assert list(table.columns[: table.first]) == in_sight and table.drawn == {"prefill": 1.0, lost: 0.0}


def test_the_rows_stand_in_the_order_that_the_caption_states(compared: Comparison, answered_cells: Comparison):
    for found, first in ((compared, ""), (answered_cells, "at most 2 points lost first, then ")):
        table = table_of(found)
        assert f"{first}the fastest prefill first. Controls last." in table.order
        at = {name: table.columns.index(name) for name in ("Retention", "prefill", *table.drawn)}
        lost = at.get("points lost")
        keys = [
            (
                row[at["Retention"]].order,
                row[0].note == "control",
                lost is not None and row[lost].order > 0.02,
                -row[at["prefill"]].order,
            )
            for row in table.rows
        ]
        assert keys == sorted(keys)


def test_the_terminal_has_the_verdict_and_the_table_in_40_lines():
    names = tuple(f"method-{number}" for number in range(30))
    cells = [timed(name, 20 + number, 0.1) for number, name in enumerate(names)]
    study = examples.study(names, retentions=(0.3,), verb="compare")
    report = pages.report(compare(examples.contents_of(study, cells, examples.dense())))
    text = in_terminal(report)
    assert "16 of 30 rows" in text and "method-15" in text and "method-16" not in text.partition("Keep in mind")[0]
    assert len(text.splitlines()) <= 40
    assert "method-29" in in_terminal(report, everything=True)


def test_answers_stand_with_the_difference_to_the_reference(answered_cells: Comparison):
    table = table_of(answered_cells)
    place = table.columns.index("points to trio")
    assert {row[0].text: (f"{row[place].text} {row[place].note}".strip(), row[place].tone) for row in table.rows} == {
        "scope": ("+10.0 [+5.6, +14.2]", "gain"),
        "lookahead": ("+0.0 [−3.1, +3.1]", ""),
        "trio": ("–", ""),
        "random": ("−12.5 [−18.0, −6.7]", "loss"),
    }
    [kinds] = pages.kinds_page(answered_cells).blocks
    assert isinstance(kinds, Table) and list(kinds.columns[2:]) == ["1 hop", "2 hops"] and len(kinds.rows) == 5


def test_the_counted_factor_stands_beside_the_formula():
    study = examples.study(("trio", "random"), retentions=(0.3,), verb="compare")
    bare = examples.measurement("random", 0.3).model_copy(update={"fastv_overhead_macs": 0})
    cells = [examples.measurement("trio", 0.3, selection_forwards=0.21), bare]
    table = table_of(compare(examples.contents_of(study, cells, examples.dense())))
    at = [table.columns.index(name) for name in ("overhead factor", "tokens kept")]
    trio, _ = sorted(table.rows, key=lambda row: row[0].text, reverse=True)
    assert [trio[place].text for place in at] == ["0.210", "309, 182, 74"]


def test_a_doubt_marks_only_a_row_whose_conclusion_it_could_turn(answered_cells: Comparison):
    def marked(low: float, high: float) -> list[str]:
        rows = [
            row.model_copy(update={"prefill_speedup": row.prefill_speedup.model_copy(update={"ci95": (low, high)})})
            for row in answered_cells.rows
            if row.prefill_speedup is not None
        ]
        doubt = Doubt(
            cell=Cell(method="scope", retention=0.3), kind="busy", sentence="s", next_step="n", found=2, threshold=1
        )
        table = table_of(answered_cells.model_copy(update={"doubts": [doubt], "rows": rows}))
        return [row[0].text for row in table.rows if any(entry.doubt for entry in row)]

    assert marked(0.5, 9) == ["scope"] and marked(1.9, 2.1) == []


def test_the_terminal_shows_the_chosen_retention_in_80_columns(compared: Comparison, answered_cells: Comparison):
    assert not list(too_wide(pages.report(answered_cells))) and not list(too_wide(pages.report(compared)))
    text = in_terminal(pages.report(compared))
    assert "77.0 %" not in text and "77.0 %" in in_terminal(pages.report(compared), everything=True)


def test_a_method_that_is_worse_than_a_control_is_told_so():
    """What the author of a method needs to know: 8.3 % against 47.2 %."""
    right = {"mine": [True] * 6 + [False] * 66, "random": [False] * 3 + [True] * 34 + [False] * 35}
    dense = examples.dense().model_copy(update={"correct": (True,) * 70 + (False,) * 2})
    told = []
    for method, correct in right.items():
        seen = {"fidelity": examples.right_answers(correct), "remark": "control" * (method == "random")}
        told.append(examples.measurement(method, 0.3).model_copy(update=seen))
    study = examples.study(tuple(right), retentions=(0.3,), verb="compare", model="MODEL")
    found = compare(examples.contents_of(study, told, dense)).conclusion
    assert found is not None and found.word == "do not"
    assert found.sentence.endswith(" is worse than random: 8.3 % right against 47.2 %.")
    better = [told[0].model_copy(update={"fidelity": told[1].fidelity}), told[1]]
    found = compare(examples.contents_of(study, better, dense)).conclusion
    assert found is not None and "worse" not in found.sentence


def test_the_next_command_has_the_time_of_the_questions_that_it_asks_again():
    """One process measured, so it is advised to measure again: 40 questions, dense in 0.2 s and pruned in 0.1 s."""
    study = examples.study(("trio",), retentions=(0.3,), verb="compare")
    runs = (Timed(prefill_ms=100, total_ms=200), Timed(cell=study.cells()[0].id, prefill_ms=50, total_ms=100))
    rounds = [Round(phase="generation", runs=runs, seconds=0.5)] * 6
    dense = examples.dense().model_copy(update={"correct": (True,) * 40})
    sessions = [examples.session(command="trio-profile compare")]
    found = compare(examples.contents_of(study, [timed("trio", 50, 0.1)], dense, sessions, rounds)).conclusion
    assert found.next.endswith("--out ANOTHER") and found.next_seconds == pytest.approx(6 * 0.5 + 40 * 0.3)


def test_the_heading_counts_the_methods_that_ran():
    """Of four methods `vtw` was refused."""
    found = made_up()
    assert len(found.study.methods) == 4 and pages.report(found).subject == "3 methods"
