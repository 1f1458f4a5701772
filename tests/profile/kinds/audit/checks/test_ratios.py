import re

import pytest

from tests.profile.kinds.audit.auditing import LLAVA, NEXT, audited, found, of_row
from trio_profile.kinds.audit.document import AuditDocument


def test_every_printed_ratio_is_traced_to_its_row(trio_audit):
    for where, quantity, printed, value, of, how in (
        ("headline, claims", "flops_ratio", "6.22", 16.67 / 2.68, "summary_b, trio", "rounded"),
        (NEXT, "prefill_speedup", "2.67", 4934 / 1844, NEXT, "cut off, not rounded"),
        (LLAVA, "kv_ratio", "5.13", 318 / 62, LLAVA, "rounded"),
    ):
        one = found(trio_audit, quantity, where)
        assert (one.printed, one.verdict) == (printed, "supported")
        assert one.recomputed == pytest.approx(value)
        assert f"in {of}" in one.why and f"{printed} {how}." in one.why


def test_the_selection_costs_less_than_nine_percent_of_the_dense_total(trio_audit: AuditDocument):
    one = found(trio_audit, "overhead_below_pct")
    assert (one.verdict, one.printed) == ("supported", "less than 9")
    assert one.recomputed == pytest.approx(100 * (2764 - 2256) / 5921)


def test_a_ratio_is_recomputed_from_its_two_figures():
    for printed, verdict in (
        ("prefill_speedup: 2.00", "supported"),
        ("prefill_speedup: 2.2", "overstated"),
        ("prefill_speedup: 1.8", "understated"),
        ("prefill_reduction_pct: 50", "supported"),
        ("prefill_of_dense_pct: 50.0", "supported"),
        ("prefill_of_dense_pct: 55", "understated"),
    ):
        document = of_row(f"{{prefill_ms: 50.0, {printed}}}", "{prefill_s: 0.1000}")
        assert document.claims[0].verdict == verdict
        assert document.claims[0].recomputed == pytest.approx(2 if "speedup" in printed else 50)


def test_a_ratio_between_those_of_two_rows_follows_from_neither():
    document = audited(
        "  a: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 100}}}\n"
        "  b: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 80}}}\n"
        "  c: {rows: {prune 10%: {total_speedup: 2.25}}}\n"
    )
    one = found(document, "total_speedup")
    assert one.verdict == "not_comparable"
    assert "It follows from no row. Not from 200 / 100 = 2 in a, prune 10% and 200 / 80 = 2.5 in b" in one.why


def test_a_ratio_is_traced_to_the_row_that_prints_it_without_help_of_rounding():
    document = audited(
        "  a: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 99}}}\n"
        "  b: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 100}}}\n"
        "  c: {rows: {prune 10%: {total_speedup: 2.00}}}\n"
    )
    one = found(document, "total_speedup")
    assert one.why == "200 / 100 = 2 in b, prune 10%: 2.00 rounded."
    assert (one.recomputed, one.interval) == (2, (199.5 / 101, 201 / 99.5))
    alone = found(
        audited("  a: {rows: {baseline: {total_s: 200}, prune: {total_s: 99, total_speedup: 2.00}}}\n"), "total_speedup"
    )
    assert alone.why.endswith("2.00 within what the rounding of its figures allows.")


def test_a_ratio_without_figures_is_underdetermined():
    one = found(audited("  c: {rows: {prune 10%: {total_speedup: 2.25}}}\n"), "total_speedup")
    assert (one.verdict, one.recomputed) == ("underdetermined", None)
    other = audited("  c: {rows: {baseline: {total_s: 5}, rival: {total_s: 2}, prune: {total_speedup: 2.5}}}\n")
    assert found(other, "total_speedup").verdict == "underdetermined"  # a rival's times are not the method's


def test_a_time_to_first_token_is_the_sum_of_its_parts():
    dense = "{vision_ms: 500, selection_ms: 45, prefill_ms: 1142}"
    body = "{vision_ms: 500, selection_ms: 85, prefill_ms: 156, ttft_speedup: 2.28}"
    one = found(of_row(body, dense), "ttft_speedup")
    assert one.verdict == "supported" and one.recomputed == pytest.approx(1687 / 741)
    assert one.why.startswith("(500 + 45 + 1142) / (500 + 85 + 156) = 2.27665 in t, prune")
    without = found(of_row("{vision_ms: 500, prefill_s: 1, ttft_speedup: 2.28}", dense), "ttft_speedup")
    assert without.verdict == "underdetermined"  # parts in two units are not added


def test_a_throughput_grows_where_a_time_shrinks():
    one = found(
        of_row("{throughput_persecond: 38.8, throughput_speedup: 1.32}", "{throughput_persecond: 29.5}"),
        "throughput_speedup",
    )
    assert one.verdict == "supported" and one.recomputed == pytest.approx(38.8 / 29.5)


@pytest.mark.parametrize(
    ("row", "verdict", "bound"),
    [
        # A layer's work is convex in its tokens, so an even share of them is the least. A printed 0.10 may be 0.095.
        ("prune 10%: {flops_ratio: 620}", "overstated", 10.8),
        ("prune 10%: {macs_reduction_pct: 99.84}", "overstated", 90.75),
        ("prune 10%: {flops_of_dense_pct: 2}", "overstated", 9.25),
        ("prune 10%: {kv_ratio: 12}", "overstated", 10.53),
        ("prune 10%: {flops_ratio: 8.1}", "underdetermined", 10.8),
        ("other 10%: {flops_ratio: 620}", "overstated", 10.8),
    ],
)
def test_a_ratio_that_no_row_prints_has_a_bound_by_its_retention(row: str, verdict: str, bound: float):
    """The claim of the issue: 620 times less work at a retention of 11.1 %."""
    (one,) = audited(f"  a: {{rows: {{{row}}}}}\n").claims
    assert one.verdict == verdict
    stated = float(re.search(r"it is at (?:most|least) ([\d.]+)\.( |$)", one.why)[1])  # pyright: ignore[reportOptionalSubscript]
    assert stated == pytest.approx(bound, rel=0.02)
    assert ("the vision tower" in one.why) == ("kv" not in row)


def test_the_layers_of_a_method_lower_the_bound():
    """With layers (2,), 2 of 32 layers run on all tokens."""
    (free,) = audited("  a: {rows: {prune 10%: {flops_ratio: 620}}}\n").claims
    (bound,) = audited("  a: {rows: {prune 10%: {flops_ratio: 620}}}\n", method="{pruning_layers: {vl: [2]}}").claims
    assert free.recomputed is not None and bound.recomputed is not None and bound.recomputed < free.recomputed
