import pytest

from tests.profile.command import complaint, document
from trio_profile.cli import run
from trio_profile.glossary import find, terms


def test_a_term_of_two_words_needs_no_quotes(capsys):
    assert document(capsys, "glossary", "visual", "token") == document(capsys, "glossary", "visual token")


def test_one_document_names_the_term_first(capsys):
    found = document(capsys, "glossary", "retention")
    assert found["format"] == "trio-profile"
    assert [term["term"] for term in found["terms"]] == ["retention", *find("retention").see]
    assert set(found["terms"][0]) == {"term", "meaning", "unit", "also", "see", "page", "anchor"}
    assert len(document(capsys, "glossary")["terms"]) == len(terms())


@pytest.mark.parametrize(
    ("form", "says"), [("--markdown", "**counted\\_macs**"), ("--latex", r"\item[{counted\_macs}]")]
)
def test_the_glossary_is_printed_in_every_form(form: str, says: str, capsys):
    assert run(["glossary", form]) == 0
    assert says in capsys.readouterr().out


def test_an_unknown_term_is_one_line_and_exit_2(capsys):
    assert complaint(capsys, "glossary", "retentoin").endswith("did you mean 'retention'?")
    assert "lists all terms" in complaint(capsys, "glossary", "\x1b[31m")
