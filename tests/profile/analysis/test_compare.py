"""The kind `compare`: one document of methods side by side, and what is refused."""

import json

import pytest

from tests.profile import examples
from trio_profile.analysis.compare import Comparison, compare
from trio_profile.cli import run
from trio_profile.engine import local
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Fidelity, Measurement, Study
from trio_profile.studies.comparisons import CONTROLS


def test_the_pareto_front_compares_methods_at_one_retention():
    """Medians that are made up: at 0.3 trio is faster and farther, grid slower and nearer, random beaten by both."""

    def cell(method: str, prefill_ms: float, kl: float) -> Measurement:
        told = Fidelity(kl_nats=(kl,), top1=(kl < 0.3,))
        cell = examples.with_pairs(examples.measurement(method, 0.3), [examples.pair(100, prefill_ms)] * 6)
        return cell.model_copy(update={"fidelity": told})

    study = examples.study(("a", "b", "c"), retentions=(0.3,))
    cells = [cell("c", 60, 0.2), cell("a", 25, 0.4), cell("b", 50, 0.1)]
    found = compare(study, examples.environment(), examples.dense(), cells)
    assert [(row.method, row.pareto) for row in found.rows] == [("a", True), ("b", True), ("c", False)]


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
    alone = compare(examples.study(("scope", "random"), retentions=(0.3,)), examples.environment(), dense, [])
    assert alone.reference == "scope"


# --- a small model that is measured -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contents(tiny_study: Study, without_fvcore, tmp_path_factory) -> Contents:
    study = tiny_study.model_copy(
        update={
            "verb": "compare",
            "methods": ("trio", "grid", "pyramiddrop", "random"),
            "retentions": (0.3,),
            "fidelity_inputs": 4,
        }
    )
    return local.run(study, tmp_path_factory.mktemp("compared"), keep_refusals=True)


@pytest.fixture(scope="module")
def compared(contents: Contents) -> Comparison:
    return compare(contents.study, contents.environment, contents.dense, contents.measurements, rounds=contents.rounds)


def test_rows_are_sorted_by_speedup_and_have_every_quantity(compared: Comparison):
    done = [row for row in compared.rows if row.status == "done"]
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


def test_what_is_refused_stands_last_with_its_reason(compared: Comparison):
    [refused] = [row for row in compared.rows if row.status != "done"]
    assert refused == compared.rows[-1]
    assert (refused.method, refused.status) == ("pyramiddrop", "refused")
    assert "cannot be reached" in str(refused.reason)
    assert not refused.pareto


def test_refusals_are_kept_and_not_tried_again(contents: Contents):
    assert local.is_counted(contents.study, contents) and local.is_timed(contents.study, contents)


@pytest.mark.slow
def test_the_verb_adds_the_controls_and_report_rebuilds_it(tiny_study: Study, without_fvcore, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--model", tiny_study.model, "--image", tiny_study.image, "--prompt", "What?", "--new-tokens", "2"]
    asked = ["--method", "trio", "--retention", "0.4,0.5", "--seconds", "0.01", "--processes", "1"]
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
