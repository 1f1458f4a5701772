from trio_profile.cli import run
from trio_profile.cli.verbs import commands
from trio_profile.study.kinds import KINDS


def printed(capsys, verb: str, form: str) -> str:
    assert run([verb, form]) == 0
    return capsys.readouterr().out


def listed(text: str) -> set[str]:
    """The options of a help."""
    words = [line.split()[1] for line in text.splitlines() if line.startswith("│ --")]
    return set(words) - {"--help", "--help-all"}


def test_the_help_of_a_study_lists_few_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    for verb in [name for name, *_ in commands()]:
        text = printed(capsys, verb, "--help")
        if verb in KINDS:
            assert 3 <= len(listed(text)) <= 12 and {"--out", "--dry-run", "--json"} <= listed(text), verb


def test_help_all_lists_all_options(capsys):
    few, every = (listed(printed(capsys, "sweep", form)) for form in ("--help", "--help-all"))
    assert few < every and {"--study", "--resume"} <= every
