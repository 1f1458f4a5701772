from trio_profile.findings.blocks import Terms
from trio_profile.findings.definitions import DEFINITIONS, numbers_page
from trio_profile.glossary import find, terms

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
