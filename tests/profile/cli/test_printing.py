import pytest
import typer

from trio_profile.cli import printing
from trio_profile.findings.blocks import Entry, Page, Report, Sentences, Table

REPORT = Report(
    subject="trio",
    model="pocket",
    facts=(),
    pages=(
        Page(
            "first",
            "First",
            "",
            (
                Sentences("", ("Pruning helps.",)),
                Table("every cell", ("cell",), ((Entry("a detail"),),), detail=True),
            ),
        ),
    ),
)


def printed(capsys, form: printing.Form, *, everything: bool = False) -> str:
    printing.show(form, lambda: '{"format": "trio-profile"}', lambda: REPORT, everything=everything)
    return capsys.readouterr().out


def test_json_is_the_document_and_nothing_else(capsys):
    assert printed(capsys, "json") == '{"format": "trio-profile"}\n'


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_every_other_form_draws_the_report(form, capsys):
    out = printed(capsys, form)
    assert "Pruning helps." in out
    assert out.endswith("\n") and not out.endswith("\n\n\n")


def test_the_terminal_shows_details_if_everything_is_asked_for(capsys):
    assert "a detail" not in printed(capsys, "terminal")
    assert "a detail" in printed(capsys, "terminal", everything=True)


def test_two_forms_at_once_are_refused():
    assert printing.form() == "terminal"
    assert printing.form(latex=True) == "latex"
    with pytest.raises(typer.BadParameter, match="--json and --latex are forms of the same document"):
        printing.form(json=True, latex=True)


def test_warnings_go_to_standard_error(capsys):
    printing.warn(["line 5 dropped"])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "trio-profile: warning: line 5 dropped\n")
