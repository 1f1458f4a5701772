import pytest

from tests.profile.kinds.audit.auditing import audit_of, audited, found
from trio_profile.kinds.audit.document import AuditDocument


def test_parts_must_add_up_to_their_whole():
    good = "{prefill_ms: 60, decode_ms: 40.4, total_ms: 100}"
    assert [one.verdict for one in audited(f"  t: {{rows: {{baseline: {good}}}}}\n").claims] == ["supported"]
    wrong = found(audited("  t: {rows: {baseline: {prefill_ms: 60, decode_ms: 30, total_s: 0.100}}}\n"), "total_s")
    assert (wrong.verdict, wrong.recomputed) == ("not_comparable", pytest.approx(0.09))
    longer = found(audited("  t: {rows: {baseline: {prefill_s: 61, total_s: 50}}}\n"), "prefill_s")
    assert longer.verdict == "not_comparable"


def test_parts_of_one_sample_give_the_number_of_samples():
    row = "{prefill_s: 100, forward_ms: 90, backward_ms: 20}"
    open_ = found(audited(f"  t: {{rows: {{prune: {row}}}}}\n"), "prefill_s")
    assert (open_.verdict, open_.recomputed, open_.unit) == ("underdetermined", 926, "samples")
    for samples, verdict in ((900, "supported"), (1000, "not_comparable")):
        one = found(audited(f"  t: {{samples: {samples}, rows: {{prune: {row}}}}}\n"), "prefill_s")
        assert one.verdict == verdict


def test_decoding_that_shrinks_with_more_tokens_is_a_doubt():
    def table(total: int) -> AuditDocument:
        rows = f"prune 10%: {{prefill_s: 10, total_s: 110}}, prune 50%: {{prefill_s: 30, total_s: {total}}}"
        return audited(f"  t: {{rows: {{{rows}}}}}\n")

    assert found(table(80), "after_prefill").verdict == "underdetermined"
    assert table(125).claims == ()  # 95 s and 100 s: clocks do that


def test_parts_are_compared_over_the_questions_of_a_dataset():
    sums = [one for one in audit_of("trio-2026").claims if "beside the parts" in one.why]
    left = [one.why.partition(" = ")[2].partition(" ms")[0] for one in sums]
    assert left == ["66.7598", "-6.32903", "42.603", "74.7827"] and {one.verdict for one in sums} == {"underdetermined"}
