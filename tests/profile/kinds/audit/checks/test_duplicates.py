from tests.profile.kinds.audit.auditing import audited, found
from trio_profile.kinds.audit.document import AuditDocument


def test_scores_of_one_setting_that_differ_are_found(trio_audit: AuditDocument):
    next_ = found(trio_audit, "accuracy_kept_pct", "headline, claims")
    assert (next_.verdict, next_.printed) == ("not_comparable", "97.2 / 96.5")
    pair = [one for one in trio_audit.claims if one.check == "duplicates" and one.printed == "98.2 / 98.1"]
    assert [one.verdict for one in pair] == ["supported"]  # 98.1 cut off, 98.2 rounded: nothing forces more


def test_figures_of_different_datasets_are_not_compared():
    document = audited(
        "  a: {dataset: POPE, rows: {baseline: {total_s: 200}}}\n  b: {dataset: MME, rows: {baseline: {total_s: 90}}}\n"
    )
    assert document.claims == ()
    assert document.alone == ("a, baseline", "b, baseline")


def test_a_setting_that_may_be_either_of_two_is_compared_with_neither():
    document = audited(
        "  a: {rows: {prune 22.2%: {total_s: 200}, prune 22.4%: {total_s: 210}}}\n"
        "  b: {rows: {prune 22%: {total_s: 210}}}\n"
    )
    assert document.claims == ()


def test_two_counts_of_one_prefill_name_their_conventions():
    """LLaVA-1.5-7B has 32 layers of width 4096 with an FFN of 11008, and 576 visual tokens."""
    n, d, m = 576, 4096, 11008
    gate = 32 * n * d * m / 1e12
    two = 32 * (4 * n * d * d + 2 * n * n * d + 2 * n * d * m) / 1e12
    document = audited(
        f"  a: {{rows: {{baseline: {{flops_t: {two:.2f}}}}}}}\n"
        f"  b: {{rows: {{baseline: {{flops_t: {two + gate:.2f}}}}}}}\n"
    )
    (one,) = [finding for finding in document.claims if finding.check == "duplicates"]
    assert (one.verdict, one.convention) == ("not_comparable", "visual-ffn2-macs / visual-ffn3-macs")
    lacking = f"{two:.2f} by visual-ffn2-macs, which lacks “FFN: its gate” ({gate:+.3f})"
    assert f"They are counted differently: {lacking}; {two + gate:.2f} by visual-ffn3-macs." in one.why
