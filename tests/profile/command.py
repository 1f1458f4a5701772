"""Helpers for tests that call the command line."""

import json
from collections.abc import Sequence

from trio_profile.cli import run


def document(capsys, *arguments: object, code: int = 0) -> dict:
    """The document that a verb prints with --json: one, and nothing else on standard output.

    code: the exit code that is expected.
    """
    assert run([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def complaint(capsys, *arguments: object) -> str:
    """The line with which a verb refuses: exit code 2, one line on standard error, nothing on standard output."""
    assert run([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    lines = _without_progress(captured.err.splitlines())
    assert len(lines) == 1, lines
    assert lines[0].startswith("trio-profile: error: ")
    assert captured.out == ""
    return lines[0]


def _without_progress(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("trio-profile: ") or line.startswith("trio-profile: error: ")]
