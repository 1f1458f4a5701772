"""What a verb says if the packages that run a model are not installed. No test removes them: their names are hidden."""

import pytest

from tests.profile.command import complaint, document
from trio_profile import optional
from trio_profile.errors import StudyError
from trio_profile.installation import install_command
from trio_profile.study.kinds import KINDS


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(optional, "find_spec", lambda name: None if name in ("torch", "fvcore") else object())


@pytest.mark.parametrize("name", [kind.name for kind in KINDS.values() if kind.runs_a_model])
def test_a_verb_that_runs_a_model_names_the_extra(without_torch, capsys, name):
    line = complaint(capsys, name)
    assert line.startswith(f"trio-profile: error: {name} needs the extra 'run' (not installed: torch and fvcore): ")
    assert line.endswith(install_command("run"))


def test_what_only_lists_needs_no_torch_and_the_rest_names_the_extra(without_torch, capsys):
    assert document(capsys, "models")["models"][0]["name"] == "llava-1.5-7b"
    assert document(capsys, "methods", "trio")["methods"][0]["stage"] == "decoder layers"
    assert "models needs the extra 'run'" in complaint(capsys, "models", "--check")
    assert "methods needs the extra 'run' (not installed: torch)" in complaint(capsys, "methods", "visionzip+trio")


def test_another_trio_core_is_named_before_a_model_runs(monkeypatch):
    monkeypatch.setattr(optional, "core_fault", lambda: "trio_core is a stranger's: remove it")
    with pytest.raises(StudyError, match=r"^trio_core is a stranger's: remove it$"):
        optional.require_run("sweep")
