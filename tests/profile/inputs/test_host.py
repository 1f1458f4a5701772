"""What a session says of its machine and its command."""

import sys

import pytest

from tests.places import commit_all
from trio_profile.inputs import host


def test_a_session_names_its_command_its_process_and_its_version(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["trio-profile", "audit", "my paper", b"\xff".decode("utf-8", "surrogateescape")])
    first, second = (host.session(host.without_torch()) for _ in range(2))
    assert first.id != second.id and first.started is not None
    assert first.command.startswith("trio-profile audit 'my paper' ")
    assert first.model_dump_json()
    assert first.version and first.pid and first.environment.hostname
    assert host.session(first.environment, command="trio-profile sweep").command == "trio-profile sweep"


@pytest.mark.parametrize("path", ["/home/me/.venv/bin/trio-profile", "/home/me/src/trio_profile/cli/__main__.py"])
def test_a_command_names_the_program_and_not_where_it_lies(monkeypatch: pytest.MonkeyPatch, path: str):
    monkeypatch.setattr(sys, "argv", [path, "sweep", "--out", "a b"])
    assert host.command_line() == "trio-profile sweep --out 'a b'"


def test_the_commit_has_a_digest_of_changed_code_and_of_nothing_else(tmp_path, monkeypatch):
    module = tmp_path / "trio_profile" / "inputs" / "host.py"
    core = tmp_path / "trio_core" / "pruning.py"
    for file in (module, core, tmp_path / "README.md"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("first\n")
    monkeypatch.setattr(host, "__file__", str(module))
    assert host.facts()["commit"] is None
    commit_all(tmp_path)
    clean = host.facts()["commit"]
    assert clean and set(clean) <= set("0123456789abcdef")
    (tmp_path / "README.md").write_text("second\n")
    assert host.facts()["commit"] == clean
    found = set()
    for changed, text in ((module, "second\n"), (module, "third\n"), (core, "second\n")):
        changed.write_text(text)
        commit, _, digest = host.facts()["commit"].partition("+")
        assert (commit, len(digest)) == (clean, 8)
        found.add(digest)
    assert len(found) == 3
