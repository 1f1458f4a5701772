import subprocess
import sys

import pytest
import typer

from trio_profile.cli import run
from trio_profile.cli.verbs import app, commands
from trio_profile.cli.words import words
from trio_profile.glossary import find

COMMANDS = typer.main.get_group(app).commands
WITHOUT_WORDS = {"models", "glossary"}
"""Verbs whose help has no term."""


@pytest.mark.parametrize("verb", [name for name, *_ in commands() if name not in WITHOUT_WORDS])
def test_the_help_of_a_verb_ends_with_its_words(verb: str, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert run([verb, "--help"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1].strip()
    names, _, hint = last.removeprefix("Words: ").partition(". ")
    found = names.split(", ")
    assert [find(name).term for name in found] == found
    assert hint == f"`trio-profile glossary {found[0]}` explains one."


@pytest.mark.parametrize("verb", sorted(WITHOUT_WORDS))
def test_a_help_without_terms_has_no_such_line(verb: str, capsys):
    assert run([verb, "--help"]) == 0
    assert "Words:" not in capsys.readouterr().out


def test_the_words_come_from_the_help_and_the_options_of_the_verb():
    assert words(COMMANDS["gate"]) == "Words: gate, study. `trio-profile glossary gate` explains one."
    said = words(COMMANDS["sweep"]) or ""
    assert all(f" {word}" in said for word in ("retention", "speed-up", "break-even", "cell", "visual token"))
    assert "budget" not in said  # --dry-run says it, which every verb of a study has


def test_the_help_of_all_verbs_reads_no_glossary():
    code = (
        "import sys; from trio_profile.cli import run; code = run(['--help']); "
        "found = {'yaml', 'trio_profile.glossary'} & set(sys.modules); assert not found, found; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
