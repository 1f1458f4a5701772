from trio_profile.cli import run
from trio_profile.cli.verbs import commands
from trio_profile.glossary import find

WITHOUT_WORDS = {"models", "glossary"}
"""Verbs whose help has no term."""


def test_the_help_of_a_verb_ends_with_its_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    for verb in [name for name, *_ in commands() if name not in WITHOUT_WORDS]:
        assert run([verb, "--help"]) == 0
        last = capsys.readouterr().out.strip().splitlines()[-1].strip()
        names = last.removeprefix("Words: ").partition(". ")[0].split(", ")
        assert [find(name).term for name in names] == names
