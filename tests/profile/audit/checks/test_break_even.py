import pytest

from tests.profile.auditing import audited, found
from trio_profile.judge.audit.document import AuditDocument


def test_the_break_even_of_the_paper_follows_from_its_times(trio_audit: AuditDocument):
    one = found(trio_audit, "break_even")
    assert (one.verdict, one.printed) == ("supported", "between 0.66 and 0.77")
    assert one.recomputed == pytest.approx(0.66 + 0.11 * 400 / 616)
    assert one.interval is not None and 0.72 < one.interval[0] < one.recomputed < one.interval[1] < 0.75


@pytest.mark.parametrize(
    ("claim", "verdict"), [("[0.4, 0.6]", "supported"), ("[0.6, 0.8]", "overstated"), ("[0.1, 0.2]", "understated")]
)
def test_a_claimed_break_even_is_compared_with_the_times(claim: str, verdict: str):
    series = "baseline_total_s: 100, total_s: {0.20: 60, 0.40: 90, 0.60: 110}"
    document = audited(f"  t: {{{series}, claims: {{break_even: {claim}}}}}\n")
    one = found(document, "break_even")
    assert (one.verdict, one.recomputed) == (verdict, pytest.approx(0.5))
    bare = found(audited(f"  t: {{{series}}}\n"), "break_even")
    assert (bare.verdict, bare.printed) == ("supported", "100")


def test_a_break_even_that_the_times_do_not_show_is_underdetermined():
    below = "baseline_total_s: 200, total_s: {0.2: 60, 0.4: 90}"
    twice = "baseline_total_s: 100, total_s: {0.2: 60, 0.4: 110, 0.6: 90, 0.8: 120}"
    for series in (below, twice, "note: none"):
        document = audited(f"  t: {{{series}, claims: {{break_even: [0.3, 0.5]}}}}\n")
        assert found(document, "break_even").verdict == "underdetermined"
