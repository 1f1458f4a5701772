import pytest

from tests.profile.command import document
from trio_core import releases
from trio_profile.cli import run


def test_the_environment_is_the_one_that_studies_record(capsys):
    assert document(capsys, "env")["environment"]["transformers"].startswith("5.")
    assert run(["env"]) == 0
    assert "pruning tested on" in capsys.readouterr().out


def test_a_release_of_transformers_that_was_not_tested_is_named(monkeypatch, capsys):
    monkeypatch.setattr("trio_core.releases.version", "5.99.1")
    assert document(capsys, "env")["transformers_tested"] == dict.fromkeys(releases.TESTED, False)
    assert run(["env"]) == 0
    assert "each model family is tried first" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_the_extra_run_the_device_is_unknown(monkeypatch, capsys, missing):
    monkeypatch.setattr("trio_profile.cli.env.find_spec", lambda name: None if name == missing else object())
    assert run(["env"]) == 0
    assert "unknown without the extra run" in " ".join(capsys.readouterr().out.split())
