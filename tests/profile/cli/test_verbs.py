from trio_profile.cli import run
from trio_profile.cli.verbs import commands
from trio_profile.glossary import find
from trio_profile.studies.kinds import KINDS

WITHOUT_WORDS = {"models", "glossary"}
"""Verbs whose help has no term."""


def printed(capsys, verb: str, form: str) -> str:
    assert run([verb, form]) == 0
    return capsys.readouterr().out


def listed(text: str) -> set[str]:
    """The options of a help."""
    words = [line.split()[1] for line in text.splitlines() if line.startswith("│ --")]
    return set(words) - {"--help", "--help-all"}


def test_the_help_of_a_verb_ends_with_its_words_and_that_of_a_study_lists_few_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    for verb in [name for name, *_ in commands() if name not in WITHOUT_WORDS]:
        text = printed(capsys, verb, "--help")
        names = text.strip().splitlines()[-1].strip().removeprefix("Words: ").partition(". ")[0].split(", ")
        assert [find(name).term for name in names] == names
        if verb in KINDS:
            assert 3 <= len(listed(text)) <= 12 and {"--out", "--dry-run", "--json"} <= listed(text), verb


def test_help_all_lists_all_options(capsys):
    few, every = (listed(printed(capsys, "sweep", form)) for form in ("--help", "--help-all"))
    assert few < every and {"--study", "--resume", "--log"} <= every
