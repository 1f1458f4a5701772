"""What a session says of its machine and its command."""

import subprocess
import sys

import pytest

from trio_profile.inputs import host


def test_a_session_names_its_command_its_process_and_its_version(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["trio-profile", "audit", "my paper", b"\xff".decode("utf-8", "surrogateescape")])
    first, second = (host.session(host.without_torch()) for _ in range(2))
    assert first.id != second.id and first.started is not None
    assert first.command.startswith("trio-profile audit 'my paper' ")
    assert first.model_dump_json()
    assert first.version and first.pid and first.environment.hostname
    assert host.session(first.environment, command="trio-profile sweep").command == "trio-profile sweep"


def test_a_machine_is_described_without_torch():
    code = (
        "import sys; from trio_profile.inputs import host; print(host.without_torch().python, 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    python, *modules = run.stdout.split()
    assert python == host.without_torch().python
    assert "torch" not in modules


@pytest.mark.parametrize("path", ["/home/me/.venv/bin/trio-profile", "/home/me/src/trio_profile/cli/__main__.py"])
def test_a_command_names_the_program_and_not_where_it_lies(monkeypatch: pytest.MonkeyPatch, path: str):
    monkeypatch.setattr(sys, "argv", [path, "sweep", "--out", "a b"])
    assert host.command_line() == "trio-profile sweep --out 'a b'"
