"""The kind `compare`: one document of methods side by side, and what is refused."""

import json

import pytest

from tests.profile import examples
from trio_profile.cli import run
from trio_profile.kinds.grid.compare import Comparison, compare
from trio_profile.kinds.grid.comparisons import CONTROLS
from trio_profile.records.schema import Fidelity, Measurement, Study


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

    def told(method: str, correct: list[bool]) -> Measurement:
        seen = Fidelity(kl_nats=(0.1,) * 200, top1=tuple(correct), same=tuple(correct), correct=tuple(correct))
        return examples.measurement(method, 0.3).model_copy(update={"fidelity": seen})

    study = examples.study(tuple(right), retentions=(0.3,), verb="compare")
    cells = [told(*pair) for pair in right.items()]
    return compare(examples.contents_of(study, cells, dense))


def test_rows_are_sorted_by_speedup_with_what_is_refused_last_and_the_front_is_of_one_retention():
    rows = made_up().rows
    found = [(row.method, row.nominal_retention, row.pareto) for row in rows]
    assert [one for one in found if one[1] == 0.3] == [
        *(("trio", 0.3, True), ("grid", 0.3, True), ("random", 0.3, False), ("vtw", 0.3, False))
    ]
    assert ("trio", 0.77, True) in found
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
