"""The words of this project: one meaning each."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from pydantic import ValidationError

from trio_profile import glossary
from trio_profile.errors import GlossaryError
from trio_profile.glossary import LONGEST_MEANING, Term, find, key, named_in, neighbours, terms

WORDS = """
    method stage retention budget schedule saliency score selection kept prefill decode TTFT TPOT;KV cache;study cell
    session measurement environment finding reconciliation attribution break-even audit gate dense;paired ratio
    visual token;doubt interval claim control MAC FLOP gamma probe NMS;proxy loss;tail saliency;autograd saliency
    Pareto front;points lost;picture question speed-up
"""
"""The words that the project fixed for its code, help, tables and pages. Those of two words stand in their own part."""
NAMES = "retention budgets prefill_ms total_ms fastv_macs counted_macs kv_bytes break_even claims stages kept scores"
"""Names in `--json` and of the Python face that are a word of the project."""


def wanted() -> list[str]:
    parts = [part.strip() for line in WORDS.splitlines() for part in line.split(";")]
    pairs = {term.term for term in terms() if " " in term.term}
    return [word for part in parts for word in ([part] if part in pairs else part.split())]


def test_there_are_some_fifty_terms():
    assert 40 <= len(terms()) <= 60


def test_no_spelling_stands_for_two_terms():
    spellings = [key(text) for term in terms() for text in {key(one): one for one in term.spellings}.values()]
    assert [text for text, number in Counter(spellings).items() if number > 1] == []
    assert len({term.anchor for term in terms()}) == len(terms())


def test_terms_stand_in_alphabetical_order():
    names = [term.term for term in terms()]
    assert names == sorted(names, key=str.casefold)


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.anchor)
def test_every_related_term_exists_and_is_another_one(term: Term):
    related = [other.term for other in neighbours(term)]
    assert related == list(term.see) and term.term not in related and len(set(related)) == len(related)
    assert related, "a word without neighbours explains little"


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.anchor)
def test_a_meaning_is_at_most_three_whole_sentences(term: Term):
    assert len(term.meaning) <= LONGEST_MEANING and term.meaning.endswith(".")
    assert len(re.findall(r"[.](?: |$)", term.meaning)) <= 3
    assert "\n" not in term.meaning and term.meaning == term.meaning.strip()


@pytest.mark.parametrize("word", wanted())
def test_every_word_of_the_design_is_a_term(word: str):
    assert find(word).term == word


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_that_scripts_rely_on_is_explained(name: str):
    assert find(name).meaning


def test_a_page_is_named_by_its_path_in_the_documentation():
    explained = {f"explanation/{name}.md" for name in ("break-even", "flops", "paired-ratios", "retention", "saliency")}
    assert {term.page for term in terms() if term.page} == {*explained, "how-to/serving.md"}


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


@pytest.mark.parametrize(
    "fields",
    [
        {"meaning": "x" * (LONGEST_MEANING + 1)},
        {"meaning": ""},
        {"term": 7},
        {"see": "retention"},
        {"colour": "red"},
    ],
)
def test_a_term_is_checked_strictly(fields: dict):
    with pytest.raises(ValidationError):
        Term.model_validate({"term": "a", "meaning": "It is a.", **fields})


def test_the_glossary_imports_nothing_slow():
    code = (
        "import sys; from trio_profile.glossary import terms; assert terms(); "
        "heavy = {'torch', 'numpy', 'scipy', 'plotly', 'rich'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_file_ships_with_the_package():
    assert glossary.SOURCE.is_file() and glossary.SOURCE.parent.name == "data"
