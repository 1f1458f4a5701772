import pytest

from tests.profile.kinds.audit.auditing import audit_of, audited, found
from trio_profile.kinds.audit.document import AuditDocument


def test_the_dense_flops_are_the_papers_formula(trio_audit: AuditDocument):
    by_print = {one.printed: one for one in trio_audit.claims if one.check == "work" and one.quantity == "flops_t"}
    dense, small = by_print["16.67"], by_print["2.98"]
    assert (dense.verdict, dense.convention, dense.recomputed) == ("supported", "visual-ffn2-macs", 16.6698418176)
    assert "n = 2880" in dense.why and "No text is counted" in dense.why
    assert (small.verdict, small.convention, small.recomputed) == ("supported", "visual-ffn2-macs", 2.986076012544)
    assert "2.98 cut off, not rounded" in small.why


def test_five_published_figures_of_one_prefill_have_their_conventions():
    document = audit_of("llava-1.5-flops")
    assert [(one.printed, one.convention, one.verdict) for one in document.claims] == [
        ("99.3", "layer-all-ffn2-macs", "supported"),
        ("2.98", "visual-ffn2-macs", "supported"),
        ("3.23", "all-ffn2-macs", "supported"),
        ("3.82", "visual-ffn3-macs", "supported"),
        ("8.48", None, "underdetermined"),
    ]
    last = document.claims[-1]
    assert last.recomputed == pytest.approx(8.422, abs=1e-3)
    assert "with 50 text tokens" in last.why


def test_a_stated_convention_gives_its_own_figure():
    tables = "  t: {{convention: all-ffn3-macs, rows: {{baseline: {{text_tokens: 36, flops_t: {}}}}}}}\n"
    right = 32 * (612 * (4 * 4096**2 + 3 * 4096 * 11008) + 2 * 612**2 * 4096) / 1e12
    for print_, verdict in ((f"{right:.2f}", "supported"), ("5.0", "overstated"), ("3.0", "understated")):
        one = found(audited(tables.format(print_)), "flops_t")
        assert (one.verdict, one.recomputed) == (verdict, pytest.approx(right))


def test_macs_are_not_explained_by_flops():
    assert found(audited("  t: {rows: {baseline: {flops_t: 5.97}}}\n"), "flops_t").convention == "visual-ffn2-flops"
    one = found(audited("  t: {rows: {baseline: {macs_t: 5.97}}}\n"), "macs_t")
    assert one.convention is None or one.convention.endswith("-macs")
