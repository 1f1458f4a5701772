import pytest

from tests.profile.kinds.audit.auditing import audited, found
from trio_profile.kinds.audit.document import AuditDocument


def test_the_break_even_of_the_paper_follows_from_its_times(trio_audit: AuditDocument):
    one = found(trio_audit, "break_even")
    assert (one.verdict, one.printed) == ("supported", "between 0.66 and 0.77")
    assert one.recomputed == pytest.approx(0.66 + 0.11 * 400 / 616)
    assert one.interval is not None and 0.72 < one.interval[0] < one.recomputed < one.interval[1] < 0.75


@pytest.mark.parametrize(
    ("claim", "verdict"), [("[0.4, 0.6]", "supported"), ("[0.6, 0.8]", "overstated"), ("[0.1, 0.2]", "understated")]
)
def test_a_claimed_break_even_is_compared_with_the_times(claim: str, verdict: str):
    times = "baseline: {total_s: 100}, prune 20%: {total_s: 60}, prune 40%: {total_s: 90}, prune 60%: {total_s: 110}"
    document = audited(f"  t: {{rows: {{{times}, prune: {{break_even: {claim}}}}}}}\n")
    one = found(document, "break_even")
    assert (one.verdict, one.recomputed) == (verdict, pytest.approx(0.5))


def test_a_break_even_that_the_times_do_not_show_is_underdetermined():
    below = "baseline: {total_s: 200}, prune 20%: {total_s: 60}, prune 40%: {total_s: 90},"
    twice = below.replace("200", "70") + "prune 60%: {total_s: 65}, prune 80%: {total_s: 120},"
    for times in (below, twice, ""):
        document = audited(f"  t: {{rows: {{{times} prune: {{break_even: [0.3, 0.5]}}}}}}\n")
        assert found(document, "break_even").verdict == "underdetermined"
