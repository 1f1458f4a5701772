"""The words of this project, and the definitions of the numbers: one meaning each."""

from collections import Counter

from trio_profile.report.blocks import Terms
from trio_profile.report.definitions import by_spelling, definitions, numbers_page, terms

[DEFINED] = [block for block in numbers_page().blocks if isinstance(block, Terms)]


def test_every_definition_of_a_report_begins_with_the_meaning_in_the_glossary():
    assert [name for name, _ in DEFINED.items] == list(definitions())
    for name, text in DEFINED.items:
        assert by_spelling()[name].term == name and text.startswith(by_spelling()[name].meaning)


def test_the_heads_of_columns_get_the_meaning_of_any_term():
    for head, term in (
        ("retention", "retention"),
        ("MACs", "MAC"),
        ("KV", "KV cache"),
        ("γ", "gamma"),
        ("f(n)", "fastv_macs"),
    ):
        assert DEFINED.heads[head] == by_spelling()[term].meaning
    assert set(DEFINED.heads.values()) == {term.meaning for term in terms()}


def test_no_spelling_stands_for_two_terms():
    spellings = [text for term in terms() for text in {_plain(spelling) for spelling in term.spellings}]
    assert [text for text, number in Counter(spellings).items() if number > 1] == []


def test_every_related_term_exists_and_is_another_one():
    for term in terms():
        related = [by_spelling()[name].term for name in term.see]
        assert related == list(term.see) and term.term not in related and len(set(related)) == len(related) > 0


def test_a_symbol_and_a_plural_find_their_term():
    assert by_spelling()["γ"].term == "gamma" and by_spelling()["studies"].term == "study"


def _plain(text: str) -> str:
    """The common form of the spellings of one word: `Break even` and `break-even` are both `break even`."""
    return " ".join(text.casefold().replace("-", " ").replace("_", " ").split())
