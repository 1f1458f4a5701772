"""The document of an audit: TRIO's paper, other papers, and papers made up to hold or to fail."""

import re
from pathlib import Path

import pytest

from tests.profile.auditing import audited_paper
from tests.profile.papers import PLANTS, paper, planted
from trio_profile.judge.audit.claims import TEMPLATE, builtin
from trio_profile.judge.audit.document import audit
from trio_profile.judge.audit.reader import read


@pytest.mark.parametrize("name", builtin())
def test_every_sum_in_a_sentence_can_be_redone(name: str):
    """What stands left of an equals sign is evaluated here; nothing contradicted is without such a sum or count."""
    document = audit(read(name))
    sums = 0
    for one in document.claims:
        for left, right, percent in re.findall(r"((?:[\d.()]+ ?[-+·/] ?)+[\d.()]+) = ([\d.]+)( %)?", one.why):
            while left.count("(") < left.count(")"):
                left = left[: left.rindex(")")] + left[left.rindex(")") + 1 :]
            while left.count("(") > left.count(")"):
                left = left[left.index("(") + 1 :]
            value = eval(left.replace("·", "*"), {"__builtins__": {}}) * (100 if percent else 1)
            assert value == pytest.approx(float(right.rstrip(".")), rel=1e-4), one.why
            sums += 1
        assert not one.inconsistent or one.recomputed is not None
    assert sums or name in ("llava-1.5-flops",)


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("fastv", {"flops_of_dense_pct": "supported", "flops_g": "supported", "retention": "not_comparable"}),
        ("pyramiddrop", {"flops_reduction_pct": "supported", "flops_t": "supported", "tokens": "supported"}),
        ("sparsevlm", {"tokens": "overstated"}),
        ("visionzip", {"tokens": "supported", "retention": "supported"}),
        ("dart", {"overall_speedup": "underdetermined", "tokens": "not_comparable"}),
    ],
)
def test_claims_of_other_papers_have_their_verdicts(name: str, verdicts: dict[str, str]):
    assert {one.quantity: one.verdict for one in audit(read(name)).claims} == verdicts


def test_the_example_in_the_documentation_is_supported():
    text = (Path(__file__).parents[4] / "docs" / "how-to" / "claims.md").read_text()
    example = re.search(r"```yaml title=[^\n]*\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert set(audited_paper(example[1]).tally) == {"supported"}


def test_every_claim_of_the_template_is_supported():
    assert set(audit(read(str(TEMPLATE))).tally) == {"supported"}


def test_consistent_papers_are_supported_in_every_figure():
    for seed in range(60):
        document = audited_paper(paper(seed).text)
        assert set(document.tally) == {"supported"}, (
            seed,
            [one for one in document.claims if one.verdict != "supported"],
        )
        assert len(document.claims) > 10


def test_one_inconsistency_is_caught_and_named():
    for seed in range(60):
        made, kind, where, quantities = planted(seed)
        named = [
            one
            for one in audited_paper(made.text).claims
            if one.inconsistent and where in one.where.split("; ") and one.quantity in quantities
        ]
        assert named, (seed, kind, where)


def test_every_kind_of_inconsistency_is_planted():
    assert {planted(seed)[1] for seed in range(200)} == set(PLANTS)
