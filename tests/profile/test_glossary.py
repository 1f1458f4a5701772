"""The words of this project: one meaning each."""

import re
import subprocess
import sys
from collections import Counter

import pytest

from trio_profile.errors import GlossaryError
from trio_profile.glossary import find, key, named_in, neighbours, terms

WORDS = """
    method stage retention budget schedule saliency score selection kept prefill decode TTFT TPOT;KV cache;study cell
    session measurement environment finding reconciliation attribution break-even audit gate dense;paired ratio
    visual token;doubt interval claim control MAC FLOP gamma probe NMS;proxy loss;tail saliency;autograd saliency
    Pareto front;points lost;picture question speed-up
"""
"""The words that the project fixed for its code, help, tables and pages. Those of two words stand in their own part."""


def wanted() -> list[str]:
    parts = [part.strip() for line in WORDS.splitlines() for part in line.split(";")]
    pairs = {term.term for term in terms() if " " in term.term}
    return [word for part in parts for word in ([part] if part in pairs else part.split())]


def test_no_spelling_stands_for_two_terms():
    spellings = [key(text) for term in terms() for text in {key(one): one for one in term.spellings}.values()]
    assert [text for text, number in Counter(spellings).items() if number > 1] == []
    assert len({term.anchor for term in terms()}) == len(terms())


def test_every_related_term_exists_and_is_another_one():
    for term in terms():
        related = [other.term for other in neighbours(term)]
        assert related == list(term.see) and term.term not in related and len(set(related)) == len(related) > 0


def test_every_word_of_the_design_is_a_term():
    assert [word for word in wanted() if find(word).term != word] == []


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


def test_words_in_a_text_are_whole_words_once_each_in_order():
    text = "Cells of a study: tail saliency, then cell by cell, studied in multi-stage runs. Total of the kv-caches."
    assert [term.term for term in named_in([text])] == ["cell", "study", "tail saliency", "total"]
    assert [term.term for term in named_in(["visual\n  tokens", "a visual token"])] == ["visual token"]


def test_capitals_count_where_a_term_has_them():
    assert [term.term for term in named_in(["flops prints FLOPs, Prefill"])] == ["FLOP", "prefill"]


def test_the_glossary_imports_nothing_slow():
    code = (
        "import sys; from trio_profile.glossary import terms; assert terms(); "
        "heavy = {'torch', 'numpy', 'scipy', 'plotly', 'rich'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
