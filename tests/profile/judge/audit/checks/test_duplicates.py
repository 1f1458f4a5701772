from tests.profile.auditing import audited, found
from trio_profile.judge.audit.document import AuditDocument


def test_two_times_for_one_run_are_found(trio_audit: AuditDocument):
    total = found(trio_audit, "total_s", "summary_b, trio")
    assert (total.verdict, total.printed) == ("not_comparable", "2764 / 2733 / 2810")
    prefill = found(trio_audit, "prefill_s", "summary_b, trio")
    assert (prefill.verdict, prefill.printed) == ("not_comparable", "1791 / 1769 / 1844")
    dense = found(trio_audit, "total_s", "summary_b, baseline")
    assert (dense.verdict, dense.printed) == ("supported", "5921")


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
