"""Every study verb, over the registry of kinds."""

import sys
from typing import Any

import pytest
import typer

from tests.core.tiny import fast_first
from tests.profile.command import complaint, document
from trio_profile.cli import run
from trio_profile.cli.study_verbs import ENGINE_OPTIONS
from trio_profile.cli.verbs import app
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.record import VERSION
from trio_profile.study.kinds import KINDS

pytestmark = pytest.mark.usefixtures("without_fvcore")
VERBS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("kind", KINDS)
def test_a_verb_takes_the_options_of_its_kind_and_of_every_study(kind):
    names = {one.name for one in VERBS[kind].params}
    common = {"study", "out", "resume", "dry_run", "json", "markdown", "latex", "help_all"}
    own = {"new", "strict"} if kind == "audit" else {"unit"} if kind == "flops" else set()
    engine = {"engine", *ENGINE_OPTIONS} if KINDS[kind].file == MEASUREMENTS else set()
    trust = {"trust"} if KINDS[kind].runs_a_model else set()
    assert names - {"help"} == {*KINDS[kind].options, *common, *own, *engine, *trust}
    assert all(one.help for one in VERBS[kind].params)


# --- a study, from the line to its report ----------------------------------------------------------------------------


def test_sweep_prints_one_document_and_writes_a_report(swept, sweep_arguments, capsys):
    found = document(capsys, *sweep_arguments, "--out", swept[0])
    assert found["format"] == "trio-profile"
    assert found["version"] == VERSION
    assert found["environment"]["device_name"] == "cpu"
    assert found["study"]["prompt"] == "What is this?"
    assert [(c["method"], c["nominal_retention"]) for c in found["cells"]] == [("trio", 0.4), ("trio", 0.8)]
    for cell in found["cells"]:
        for quantity in ("prefill_ms", "prefill_speedup", "total_ms", "total_speedup"):
            low, high = cell[quantity]["ci95"]
            assert low <= cell[quantity]["median"] <= high
            assert cell[quantity]["stopped"] in ("converged", "budget")
        assert set(cell["retention"]) == {"nominal", "layer_average", "final_layer", "realised"}
        assert all(isinstance(cell[name], int) for name in ("fastv_macs", "counted_macs", "kv_bytes"))
        assert cell["kv_bytes"] == cell["kv_bytes_predicted"]
    assert set(found["break_even"]) == {"prefill_ms", "total_ms", "fastv_macs", "counted_macs", "kv_bytes"}
    assert found["break_even"]["kv_bytes"]["status"] == "always"
    assert found["report"] == str(swept[0] / "report.html")
    assert "<html" in (swept[0] / "report.html").read_text()


def test_a_dry_run_says_how_long_the_study_takes(sweep_arguments, tmp_path, capsys):
    assert run([*sweep_arguments, "--dry-run", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "2 cells, 36 visual" in printed
    assert "Expected time: about " in printed
    assert not (tmp_path / "out").exists()


OWN = """
from trio_core import ScoreMethod
class Norm(ScoreMethod):
    def score(self, view):
        return [sample.features.float().norm(dim=-1) for sample in view.samples]
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> str:
    """The name of a module that can be imported. Its method has a rule, and nothing else."""
    (tmp_path / "own_rule.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_rule", raising=False)
    return "own_rule"


MEASURED = [verb for verb in ("sweep", "compare", "flops", "layers") if verb in KINDS]


@pytest.mark.parametrize("verb", fast_first(MEASURED, "sweep", "flops"))
def test_a_method_of_ones_own_needs_no_more_than_its_rule(verb, own, checkpoint, tmp_path, capsys):
    sampling = () if verb == "flops" else ("--seconds", "0.05")
    process = ("--processes", "1") if verb in ("sweep", "compare") else ()
    found = document(
        capsys,
        *(verb, "--model", checkpoint, "--method", f"{own}:Norm", "--retention", "0.5", "--new-tokens", "2"),
        *(*sampling, *process, "--out", tmp_path / "out"),
    )
    assert f"{own}:Norm" in found["study"]["methods"]


def test_a_study_is_resumed_unless_no_resume_is_given(sweep_arguments, swept, capsys, monkeypatch):
    out, _ = swept
    first = document(capsys, "report", out)
    monkeypatch.setattr("trio_profile.engine.plan.build", lambda *_, **__: pytest.fail("it was measured again"))
    assert document(capsys, *sweep_arguments, "--out", out) == first
    assert document(capsys, *sweep_arguments, "--resume", "--out", out) == first
    assert "holds a study already" in complaint(capsys, *sweep_arguments, "--no-resume", "--out", out)


def test_a_method_from_the_current_directory_can_be_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text("from trio_core.methods.random import Random as Mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    found = document(capsys, "sweep", "--dry-run", "--device", "meta", "--method", "mine:Mine", "--retention", "0.4")
    assert [cell["variant"] for cell in found["cells"]] == ["mine:Mine"]
