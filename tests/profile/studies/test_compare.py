"""`trio-profile compare`: one document of methods side by side, and what is refused."""

import json

import pytest

from trio_profile.analysis.compare import Comparison, compare
from trio_profile.cli import run
from trio_profile.engine import local
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Study
from trio_profile.studies.compare import CONTROLS

pytestmark = pytest.mark.usefixtures("without_fvcore")


@pytest.fixture(scope="module")
def contents(tiny_study: Study, tmp_path_factory) -> Contents:
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


def test_the_verb_adds_the_controls_and_report_rebuilds_it(tiny_study: Study, tmp_path, capsys):
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
