"""The words of this project: one meaning each."""

import re
from collections import Counter

import pytest

from trio_profile.errors import GlossaryError
from trio_profile.glossary import find, key, neighbours, terms


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


@pytest.mark.parametrize(
    ("name", "says"),
    [("retentoin", "did you mean 'retention'?"), ("xyzzy", "`trio-profile glossary` lists all terms")],
)
def test_an_unknown_term_is_refused_with_the_nearest_one(name: str, says: str):
    with pytest.raises(GlossaryError, match=re.escape(f"no term is called {name!r}; {says}")):
        find(name)
