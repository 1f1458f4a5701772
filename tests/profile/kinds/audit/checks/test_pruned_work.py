import pytest

from tests.profile.kinds.audit.auditing import LLAVA, NEXT, found, of_row, paper_macs
from trio_profile.kinds.audit.document import AuditDocument


def test_the_gamma_that_a_total_implies_is_computed(trio_audit: AuditDocument):
    small, large = found(trio_audit, "gamma", LLAVA, "0.45"), found(trio_audit, "gamma", NEXT, "2.68")
    assert small.recomputed == pytest.approx(1.07, abs=0.005)
    assert small.interval == (pytest.approx(1.0256, abs=1e-4), pytest.approx(1.1545, abs=1e-4))
    assert large.recomputed == pytest.approx(1.54, abs=0.005)
    assert large.interval is not None and large.interval[0] < 1.5298 < 1.5534 < large.interval[1]
    assert small.verdict == large.verdict == "underdetermined"
    assert "would decide it" in small.why
    (all_of_them,) = [one for one in trio_audit.claims if one.why.startswith("No one γ explains these totals")]
    assert all_of_them.verdict == "not_comparable"
    assert LLAVA in all_of_them.where and NEXT in all_of_them.where
    (third,) = [one for one in trio_audit.claims if one.printed == "5.61"]
    assert third.interval is not None and third.interval[1] < 1
    assert "below its formula" in third.why


def test_grid_has_more_work_than_the_average_of_its_table_allows(trio_audit: AuditDocument):
    grid = found(trio_audit, "flops_t", "summary_b, grid")
    assert (grid.printed, grid.verdict) == ("1.9038", "not_comparable")
    assert grid.recomputed == pytest.approx(1.6988, abs=1e-4)
    assert grid.interval is not None
    # Whatever the schedule: 320 tokens in every layer at the least; all of them in three layers, and the rest in one
    # more, at the most.
    assert grid.interval[0] == pytest.approx(32 * paper_macs(319.5) / 1e12)
    assert grid.interval[1] == pytest.approx((3 * paper_macs(2880) + paper_macs(32 * 321 - 3 * 2880)) / 1e12)
    assert grid.interval[1] < 1.9037


BUDGETS = "layers: [2], keep: [288]"


def test_pruned_work_of_printed_budgets_without_a_selection_and_with_a_printed_gamma():
    layers, stage = 2 * paper_macs(576) + 30 * paper_macs(288), paper_macs(576)
    for more, method, expected, flops in (
        ("overhead: false, ", "{}", layers, ("1.57", "1.3", "2.2")),
        ("", "{gamma: 2.0}", layers + 2 * stage, ("1.75", "1.57", "2.2")),
    ):
        for printed, verdict in zip(flops, ("supported", "overstated", "understated"), strict=True):
            document = of_row(f"{{{BUDGETS}, {more}flops_t: {printed}}}", "{flops_t: 2.99}", method=method)
            one = found(document, "flops_t", "t, prune")
            assert one.recomputed == pytest.approx(expected / 1e12)
            assert (one.verdict, one.convention) == (verdict, "visual-ffn2-macs")


def test_where_two_conventions_print_the_dense_row_either_may_explain_the_pruned_one():
    """3.0 T is f alone (2.986 T, rounded) or with the head of all rows (3.062 T, cut off)."""
    for flops, code in (("1.566", "visual-ffn2-macs"), ("1.604", "visual-ffn2-heads-macs")):
        document = of_row(f"{{{BUDGETS}, overhead: false, flops_t: {flops}}}", "{flops_t: 3.0}")
        one = found(document, "flops_t", "t, prune")
        assert (one.verdict, one.convention) == ("supported", code)


def test_an_average_bounds_the_work_whatever_the_budgets():
    """Stages after layers 1 and 9 of 32, 64 tokens on average: 48.65 in each of 31 layers cost least, and all of them
    in the first eight most."""
    dense, pruned = "{flops_t: 2.99}", "{{retention: 0.11111, overhead: false, flops_t: {}}}"
    method = "{pruning_layers: {vl: [1, 9]}}"
    low = (paper_macs(576) + 31 * paper_macs((0.111105 * 32 - 1) * 576 / 31)) / 1e12
    high = (paper_macs(576) + 8 * paper_macs((0.11112 * 32 - 1) * 576 / 8) + 23 * 0) / 1e12
    for flops, verdict in (("0.33", "supported"), ("0.30", "overstated"), ("0.40", "understated")):
        one = found(of_row(pruned.format(flops), dense, method=method), "flops_t", "t, prune")
        assert one.verdict == verdict
        assert one.interval == (pytest.approx(low), pytest.approx(high))


def test_a_selection_before_the_decoder_has_no_gamma():
    """No stage looks at anything: what is above F_inf is a selection of unknown work."""
    document = of_row("{encoder_keep: 288, flops_t: 1.9}", "{flops_t: 2.99}")
    one = found(document, "flops_t", "t, prune")
    assert (one.verdict, one.recomputed) == ("underdetermined", pytest.approx(32 * paper_macs(288) / 1e12))


def test_a_gamma_below_what_the_paper_defines_is_overstated():
    method = "{gamma_at_least: 1}"
    one = found(of_row(f"{{{BUDGETS}, flops_t: 1.62}}", "{flops_t: 2.99}", method=method), "gamma")
    layers, stage = 2 * paper_macs(576) + 30 * paper_macs(288), paper_macs(576)
    assert (one.verdict, one.recomputed) == ("overstated", pytest.approx((1.62e12 - layers) / stage))
    open_ = found(of_row(f"{{{BUDGETS}, flops_t: 1.62}}", "{flops_t: 2.99}"), "gamma")
    assert open_.verdict == "underdetermined"
