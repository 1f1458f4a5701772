import pytest

from tests.profile.kinds.audit.auditing import audit_of, audited, found
from trio_profile.kinds.audit.document import AuditDocument


def test_published_budgets_give_their_averages(trio_audit: AuditDocument):
    averages = [one for one in trio_audit.claims if one.check == "schedule"]
    assert [(one.where, one.recomputed, one.verdict) for one in averages] == [
        ("method, llava-1.5-7b avg 64", 64, "supported"),
        ("method, llava-1.5-7b avg 128", 128, "supported"),
        ("method, llava-1.5-7b w/ encoder avg 64", 64, "supported"),
        ("method, qwen2.5-vl-7b w/ encoder 11.1%", pytest.approx(0.1113055), "supported"),
    ]


def test_equal_tokens_of_sparsevlm_leave_out_the_layer_of_the_stage():
    values = [one.recomputed for one in audit_of("sparsevlm").claims]
    assert values == [206.5, 145.40625, 82.25]


def test_an_average_and_what_is_left_after_one_stage_are_two_counts():
    def verdict(body: str) -> str:
        return audited(f"  t: {{rows: {{prune: {{{body}}}}}}}\n").claims[0].verdict

    assert verdict("layers: [2], keep: [128], tokens: 156") == "supported"
    assert verdict("layers: [2], keep: [128], tokens: 128") == "not_comparable"
    assert verdict("layers: [2, 9], keep: [200, 128], tokens: 128") == "overstated"
    assert verdict("layers: [2, 9], keep: [200, 128], tokens: 300") == "understated"


def test_no_average_lies_below_what_the_unpruned_layers_cost():
    document = audited("  t: {rows: {prune 10%: {total_s: 5}}}\n", method="{pruning_layers: {vl: [8, 16]}}")
    one = found(document, "retention")
    assert (one.verdict, one.recomputed) == ("overstated", 0.25)
