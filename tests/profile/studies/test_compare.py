"""`trio-profile compare`: one document of methods side by side, its front, its report, and what is refused."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profile import examples
from trio_profile import render as report
from trio_profile.analysis.compare import Comparison, compare
from trio_profile.analysis.pareto import front
from trio_profile.cli import run
from trio_profile.cli.compare import CONTROLS
from trio_profile.findings import compare as pages
from trio_profile.findings.blocks import Table
from trio_profile.records.estimate import Accuracy
from trio_profile.records.schema import Fidelity, Measurement, Pair, Study
from trio_profile.records.store import Contents, to_toml
from trio_profile.studies import sweep


@pytest.fixture(scope="module")
def contents(tiny_study: Study, tmp_path_factory) -> Contents:
    study = tiny_study.model_copy(
        update={"methods": ("trio", "grid", "pyramiddrop", "random"), "retentions": (0.3,), "fidelity_inputs": 4}
    )
    return sweep.run(study, tmp_path_factory.mktemp("compared"), refusals=True)


@pytest.fixture(scope="module")
def compared(contents: Contents) -> Comparison:
    return compare(contents.study, contents.environment, contents.dense, contents.measurements)


# --- the front -------------------------------------------------------------------------------------------------------


def test_the_front_by_hand():
    points = [(3.0, 0.5), (2.0, 0.1), (1.5, 0.1), (2.5, 0.6), (2.0, 0.1)]
    assert front(points) == [0, 1, 4]
    assert front([]) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_whoever_is_not_on_the_front_is_beaten_by_one_who_is(points):
    on = front(points)
    for index, (gain, loss) in enumerate(points):
        beaten = any(points[i][0] >= gain and points[i][1] <= loss and points[i] != (gain, loss) for i in on)
        assert beaten != (index in on)


# --- the document ----------------------------------------------------------------------------------------------------


def test_rows_are_sorted_and_hold_a_cell_s_names(compared: Comparison):
    done = compared.at(0.3)
    assert {row.method for row in done} == {"trio", "grid", "random"}
    speedups = [row.prefill_speedup.value for row in done if row.prefill_speedup]
    assert speedups == sorted(speedups, reverse=True) and len(speedups) == 3
    trio = next(row for row in done if row.method == "trio")
    assert trio.selection_ms is not None and trio.selection_ms.value > 0
    assert trio.selection_macs and trio.counted_macs and trio.kv_bytes
    assert trio.kl_nats is not None and trio.kl_nats.samples == 1  # a picture of one's own is the only one
    assert trio.top1_agreement is not None and trio.top1_agreement.samples == 1
    drawn = next(row for row in done if row.method == "random")
    assert drawn.kl_nats is not None and drawn.kl_nats.samples == 1
    assert any(row.pareto for row in done)


def test_dense_runs_are_shared(contents: Contents):
    """Whoever is in a round stands beside the same dense run."""
    pairs = {m.cell.method: m.pairs for m in contents.measurements if m.status == "done"}
    first = [pairs[method][0].dense_prefill_ms for method in pairs]
    assert len(set(first)) == 1


def test_what_is_refused_stands_last_with_its_reason(compared: Comparison):
    [refused] = compared.refusals
    assert refused == compared.rows[-1]
    assert (refused.method, refused.status) == ("pyramiddrop", "refused")
    assert "cannot be reached" in str(refused.reason)
    assert not refused.pareto


def test_refusals_are_kept_and_not_tried_again(contents: Contents, monkeypatch):
    monkeypatch.setattr(sweep, "build", lambda *_: pytest.fail("the model was loaded for nothing"))
    assert not sweep.unfinished(contents.study, contents)


def test_the_front_is_of_one_retention(compared: Comparison):
    """Medians that are made up: at 0.3 trio is faster and farther, grid slower and nearer, random beaten by both."""

    def cell(method: str, prefill_ms: float, kl: float) -> Measurement:
        pair = Pair(
            dense_first=True, dense_prefill_ms=100, dense_total_ms=200, prefill_ms=prefill_ms, total_ms=prefill_ms + 100
        )
        seen = {"pairs": (pair,) * 6, "fidelity": Fidelity(kl_nats=(kl,), top1=(kl < 0.3,))}
        return examples.measurement(method, 0.3).model_copy(update=seen)

    study = examples.study(("a", "b", "c"), retentions=(0.3,))
    cells = [cell("c", 60, 0.2), cell("a", 25, 0.4), cell("b", 50, 0.1)]
    found = compare(study, examples.environment(), examples.dense(), cells)
    assert [(row.method, row.pareto) for row in found.rows] == [("a", True), ("b", True), ("c", False)]
    told = pages.sentences(found, 0.3)
    assert told[0].startswith("Fastest prefill at 30.0 %: a, 4.0000×")
    assert told[1].startswith("Nearest to dense: b")


def test_answers_are_paired_with_the_reference_method():
    """200 questions: one method loses 30 that trio answers and gains 5, one swaps four, one gains 20."""
    stands = [True] * 120 + [False] * 80
    others = {
        "trio": stands,
        "random": [False] * 30 + [True] * 95 + [False] * 75,
        "lookahead": [False] * 4 + [True] * 120 + [False] * 76,
        "scope": [True] * 140 + [False] * 60,
    }
    kinds = ("1 hop", "2 hops") * 100
    dense = examples.dense().model_copy(update={"correct": (True,) * 150 + (False,) * 50, "kinds": kinds})

    def cell(method: str, correct: list[bool]) -> Measurement:
        seen = Fidelity(kl_nats=(0.1,) * 200, top1=tuple(correct), same=tuple(correct), correct=tuple(correct))
        return examples.measurement(method, 0.3).model_copy(update={"fidelity": seen})

    study = examples.study(tuple(others), retentions=(0.3,), verb="compare")
    found = compare(study, examples.environment(), dense, [cell(*pair) for pair in others.items()])
    assert found.reference == "trio"
    apart = {row.method: row.reference_difference for row in found.rows}
    assert apart.pop("trio") is None
    assert {method: seen and seen.value for method, seen in apart.items()} == pytest.approx(
        {"random": -0.125, "lookahead": 0.0, "scope": 0.1}
    )
    assert pages.sentences(found, 0.3)[-3:] == [
        "More answers right than trio, the interval of the paired difference above 0: scope.",
        "Not told apart from trio by their answers: lookahead.",
        "Fewer right than trio: random.",
    ]
    assert "less trio" in pages.comparison_page(found, 0.3).blocks[-1].columns
    assert list(found.answered) == ["scope", "lookahead", "trio", "random"]
    whole, kinds = pages.answers_page(found).blocks
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
    assert kinds.columns == ("Method", "1 hop", "2 hops") and len(kinds.rows) == 5
    alone = compare(examples.study(("scope", "random"), retentions=(0.3,)), examples.environment(), dense, [])
    assert alone.reference == "scope"


# --- the report and the verb -----------------------------------------------------------------------------------------


def test_the_report_shows_every_method_and_escapes_its_name(compared: Comparison, tmp_path):
    named = {"method": "<script>alert(1)</script>"}
    rows = [*compared.rows, *(row.model_copy(update=named) for row in (compared.at(0.3)[0], compared.rows[-1]))]
    text = report.write(pages.report(compared.model_copy(update={"rows": rows})), tmp_path).read_text()
    assert "<script>alert(1)" not in text and "&lt;script&gt;alert(1)" in text
    assert "What could not be run" in text and "At 30.0 %" in text
    cells = {found.strip() for found in re.findall(r"<t[dh][^>]*>([^<]*)", text)}
    assert {row.method for row in compared.at(0.3)} <= cells


def test_a_row_without_answers_is_as_wide_as_the_others(compared: Comparison):
    assert compared.dense is not None
    known = compared.dense.model_copy(update={"accuracy": Accuracy(value=1.0, ci95=(0.9, 1.0), samples=40)})
    page = pages.comparison_page(compared.model_copy(update={"dense": known}), 0.3)
    [table] = [block for block in page.blocks if isinstance(block, Table) and "Fastest" in block.caption]
    assert {len(row) for row in table.rows} == {len(table.columns)} and table.columns[-1] == "less trio"


def test_the_verb_adds_the_controls_and_report_rebuilds_it(tiny_study: Study, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--model", tiny_study.model, "--image", tiny_study.image, "--prompt", "What?", "--new-tokens", "2"]
    asked = ["--method", "trio", "--retention", "0.4,0.5", "--cell-seconds", "0.01", "--precision", "0.5"]
    assert run(["compare", *options, *asked, "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in document["rows"]} == {"trio", *CONTROLS}
    assert len(document["rows"]) == 6
    first = (out / "report.html").read_text()
    assert run(["report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == document["rows"]
    assert (out / "report.html").read_text() == first
    assert run(["compare", *options, *asked, "--out", str(out)]) == 0
    assert "random" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "fastest"], "unknown method 'fastest'"),
        (["--retention", "0.3,x"], "--retention '0.3,x' is not a comma list"),
        (["--retention", "1.3"], "retentions.0 = 1.3"),
        (["--pictures", "0"], "--asked 0"),
        (["--budget-rule", "mean"], "budget rule 'mean': choose average, after-prune or final"),
        (["--method", "no.such:Method"], "method 'no.such:Method' cannot be imported"),
    ],
)
def test_bad_input(arguments, said, tmp_path, capsys):
    code = run(["compare", *arguments, "--out", str(tmp_path / "out")])
    heard = capsys.readouterr()
    assert code == 2, heard
    assert said in heard.err and heard.err.count("\n") <= 2
    assert not (tmp_path / "out").exists()


def test_a_study_keeps_what_it_compared(contents: Contents):
    assert "fidelity_inputs = 4" in to_toml(contents.study)
