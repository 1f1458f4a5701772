from tests.profile.reading import terms as shown_terms
from trio_profile.findings import glossary
from trio_profile.findings.blocks import Terms
from trio_profile.glossary import find, neighbours, terms


def test_the_report_has_every_term():
    assert list(shown_terms(glossary.all_terms(terms()))) == [term.term for term in terms()]


def test_the_report_of_one_term_has_its_neighbours():
    term = find("gamma")
    [page] = glossary.one_term(term).pages
    assert page.title == "gamma"
    [near] = [block for block in page.blocks if isinstance(block, Terms)]
    assert [name for name, _ in near.items] == [other.term for other in neighbours(term)]
