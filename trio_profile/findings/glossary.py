"""The glossary as a report: all terms, or one with its neighbours."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.findings.blocks import Block, Page, Report, Sentences, Terms
from trio_profile.glossary import Term, neighbours


def all_terms(terms: Sequence[Term]) -> Report:
    """Every term with its meaning."""
    title = units.number_of(len(terms), "term")
    how = "Each word has one meaning: in the help, in reports and in the documentation."
    return _report(Page("terms", title, how, [Terms("", [(term.term, meaning(term)) for term in terms])]))


def one_term(term: Term) -> Report:
    """One term, and the terms that it names as related."""
    blocks: list[Block] = [Sentences("", [meaning(term)])]
    if near := neighbours(term):
        blocks.append(Terms("See also", [(other.term, meaning(other)) for other in near]))
    return _report(Page("term", term.term, "", blocks))


def meaning(term: Term) -> str:
    """The meaning of a term, its unit and its other spellings: `One pass … Unit: ms. Also written prefill_ms.`"""
    parts = [term.meaning]
    if term.unit:
        parts.append(f"Unit: {term.unit}.")
    if term.also:
        parts.append(f"Also written {', '.join(term.also)}.")
    return " ".join(parts)


def _report(page: Page) -> Report:
    return Report("Glossary", "trio-profile", [], [page], preposition="of")
