"""`trio-profile theory`: its document, what an interruption leaves, and what is refused."""

import json
from shutil import copy

import pytest

from tests.profile.studying import make
from trio_profile.cli import run
from trio_profile.kinds.theory import removals as profiler
from trio_profile.study import running
from trio_profile.study.kinds import find


def line(checkpoint, *more: str) -> list[str]:
    asked = ["theory", "--model", str(checkpoint), "--device", "cpu", "--layers", "1,3", "--retention", "0.2,0.6"]
    return [*asked, "--asked", "10", *more]


@pytest.mark.slow
def test_the_verb_prints_one_document_and_its_report_is_rebuilt(capsys, tmp_path, checkpoint):
    assert run(line(checkpoint, "--out", str(tmp_path), "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"format", "version", "environment", "study", "stages", "layers"} <= set(printed)
    assert [stage["layer"] for stage in printed["stages"]] == [1, 3]
    assert set(printed["stages"][0]["spearman"]) == {"value", "ci95", "samples"}
    assert printed["stages"][0]["kept"] == [7, 22] and len(printed["stages"][0]["removals"]) == 10 * 2 * 6
    assert len(printed["layers"]) == 6 and printed["layers"][-1]["last_layer_agreement"]["value"] == pytest.approx(1)
    (tmp_path / "report.html").unlink()
    assert run(["report", str(tmp_path)]) == 0
    assert "Agreement with" in capsys.readouterr().out and (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_what_was_asked_before_an_interruption_is_kept(checkpoint, monkeypatch, tmp_path):
    whole = profiler.by_layer
    calls = iter(range(100))

    def breaks(*arguments):
        if next(calls) == 11:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(profiler, "by_layer", breaks)
    study = make("theory", model=str(checkpoint), layers=(1,), retentions=(0.5,), fidelity_inputs=14)
    with pytest.raises(KeyboardInterrupt):
        running.run(study, tmp_path)
    assert running.read(tmp_path).document.questions == 11
    monkeypatch.setattr(profiler, "by_layer", whole)
    assert running.run(study, tmp_path).document.questions == 14
    monkeypatch.setattr(profiler, "by_layer", lambda *_: pytest.fail("what is finished was measured again"))
    assert running.run(study, tmp_path).document.questions == 14


def test_bad_input_is_one_line(capsys, checkpoint, photograph, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    copy(photograph, tmp_path)
    (tmp_path / "one.jsonl").write_text(json.dumps({"image": photograph.name, "question": "What is it?"}))
    for arguments, says in (
        (["--asked", "9"], "--asked 9"),
        (["--layers", "6"], "layers (6,)"),
        (["--attention", "flex_attention"], "no backward on a CPU"),
        (["--questions", "one.jsonl"], "one.jsonl: 1 questions; an interval over them needs at least 10"),
    ):
        assert run(line(checkpoint, *arguments)) == 2
        errors = [text for text in capsys.readouterr().err.splitlines() if "error:" in text]
        assert len(errors) == 1 and says in errors[0]


def test_the_theory_has_no_cells_and_is_timed_by_its_questions(checkpoint):
    study = make("theory", model=str(checkpoint), layers=(1,), retentions=(0.5,), fidelity_inputs=12)
    found = find("theory").load("preview")(study)
    assert found.cells == () and found.seconds_reason is None
    assert found.seconds is not None and found.seconds > 0
