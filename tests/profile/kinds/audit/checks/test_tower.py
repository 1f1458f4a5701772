"""The tower in front of the decoder. The expected figures are worked by hand."""

import pytest

from tests.profile.kinds.audit.auditing import audited, found, of_row
from trio_profile.kinds.audit.document import Finding

DENSE = "{vision_ms: 300, prefill_ms: 700}"


def tower(body: str, dense: str = DENSE) -> Finding:
    (one,) = [finding for finding in of_row(body, dense).claims if finding.check == "tower"]
    return one


def test_a_decoders_speed_up_is_capped_by_the_tower():
    for body, sum_ in (
        ("{prefill_ms: 100, prefill_speedup: 7.0}", "(300 + 700) / (300 + 100) = 2.5"),
        ("{prefill_speedup: 3.5}", "(300 + 700) / (300 + 700 / 3.5) = 2"),
    ):
        one = tower(body)
        assert (one.quantity, one.verdict) == ("prefill_speedup", "underdetermined")
        assert f"End to end it is at most {sum_}." in one.why
        assert one.recomputed == pytest.approx(float(sum_.rpartition(" = ")[2]))
        assert one.interval is not None and one.interval[0] < one.recomputed < one.interval[1]


def test_a_tower_of_another_table_is_taken_on_the_same_device_only():
    tables = (
        "  a: {device: A100, rows: {baseline: {prefill_ms: 700}, prune: {prefill_speedup: 7.0}}}\n"
        "  b: {device: %s, rows: {baseline: {vision_ms: 300}}}\n"
        "  c: {device: A100, rows: {baseline: {vision_ms: 500}}}\n"
    )
    capped = {
        device: next(one for one in audited(tables % device).claims if one.check == "tower")
        for device in ("A100", "H100")
    }
    assert capped["A100"].recomputed == pytest.approx(1000 / 400)  # the shorter tower allows more
    assert capped["H100"].recomputed == pytest.approx(1200 / 600)
    assert "b, baseline" in capped["A100"].why and "c, baseline" in capped["H100"].why


def test_a_decoder_and_the_whole_give_the_share_of_the_rest():
    one = tower("{prefill_speedup: 4.0, ttft_speedup: 2.0}", "{kv_mb: 1}")
    # 1 = r + d and 1 / 2 = r + d / 4, so that d = 2 / 3.
    assert one.recomputed == pytest.approx(1 / 3)
    assert one.verdict == "underdetermined" and "at most 1 / 0.333333 = 3 times" in one.why
    faster = of_row("{prefill_speedup: 2.0, ttft_speedup: 3.0}", "{kv_mb: 1}")  # than its decoder: no such share
    assert not [one for one in faster.claims if one.check == "tower"]


@pytest.mark.parametrize(("speedup", "verdict"), [("1.50", "supported"), ("2.28", "not_comparable")])
def test_shares_of_the_tower_give_the_speed_up_of_the_whole(speedup: str, verdict: str):
    document = audited(
        "  a: {rows: {baseline: {vision_of_ttft_pct: 40.0}, prune: {vision_of_ttft_pct: 60.0}}}\n"
        f"  b: {{rows: {{prune: {{ttft_speedup: {speedup}}}}}}}\n"
    )
    one = found(document, "vision_of_ttft_pct")
    assert (one.verdict, one.recomputed) == (verdict, pytest.approx(1.5))
    assert f"Printed are {speedup} in b, prune." in one.why


def test_shares_alone_leave_the_speed_up_open():
    assert tower("{vision_of_ttft_pct: 60.0}", "{vision_of_ttft_pct: 40.0}").verdict == "underdetermined"
