"""The words of this project, and the definitions of the numbers: one meaning each."""

from collections import Counter

import pytest

from trio_profile.report.blocks import Terms
from trio_profile.report.definitions import DEFINITIONS, find, key, neighbours, numbers_page, terms

[DEFINED] = [block for block in numbers_page().blocks if isinstance(block, Terms)]


def test_every_definition_of_a_report_begins_with_the_meaning_in_the_glossary():
    assert [name for name, _ in DEFINED.items] == list(DEFINITIONS)
    for name, text in DEFINED.items:
        assert find(name).term == name and text.startswith(find(name).meaning)


def test_the_heads_of_columns_get_the_meaning_of_any_term():
    for head, term in (
        ("retention", "retention"),
        ("MACs", "MAC"),
        ("KV", "KV cache"),
        ("γ", "gamma"),
        ("f(n)", "fastv_macs"),
    ):
        assert DEFINED.heads[head] == find(term).meaning
    assert set(DEFINED.heads.values()) == {term.meaning for term in terms()}


def test_no_spelling_stands_for_two_terms():
    spellings = [key(text) for term in terms() for text in {key(one): one for one in term.spellings}.values()]
    assert [text for text, number in Counter(spellings).items() if number > 1] == []
    assert len({term.anchor for term in terms()}) == len(terms())


def test_every_related_term_exists_and_is_another_one():
    for term in terms():
        related = [other.term for other in neighbours(term)]
        assert related == list(term.see) and term.term not in related and len(set(related)) == len(related) > 0


@pytest.mark.parametrize("spelt", ["break-even", "Break even", "BREAK_EVEN", " break-even ", "break-evens"])
def test_a_term_is_found_in_any_spelling(spelt: str):
    assert find(spelt).term == "break-even"


def test_a_symbol_and_an_anchor_find_their_term():
    assert find("γ").term == "gamma" and find("kv-cache").term == "KV cache" and find("studies").term == "study"
