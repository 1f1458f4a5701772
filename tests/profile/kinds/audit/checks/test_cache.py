import pytest

from tests.profile.kinds.audit.auditing import LLAVA, audited, found, of_row
from trio_profile.kinds.audit.document import AuditDocument


def test_a_cache_size_gives_the_number_of_its_tokens(trio_audit: AuditDocument):
    (cache,) = [one for one in trio_audit.claims if one.check == "cache" and one.printed == "1156"]
    assert cache.where.split("; ")[0] == "summary_b, baseline"
    assert (cache.verdict, cache.recomputed, cache.interval) == ("not_comparable", 2312, (2311, 2314))
    assert "fewer than the 2880 visual tokens that its 16.67 TFLOPs are counted for" in cache.why
    assert "2204.9" in cache.why  # were MB 10⁶ bytes, it would hold fewer still
    (small,) = [one for one in trio_audit.claims if one.check == "cache" and one.printed == "318"]
    assert (small.verdict, small.recomputed) == ("supported", 636)


def test_a_retention_is_recomputed_from_the_tokens_that_the_cache_holds(trio_audit: AuditDocument):
    said = found(trio_audit, "retention", "headline, claims")
    assert (said.verdict, said.printed) == ("not_comparable", "0.111")
    assert said.recomputed == pytest.approx(0.1421, abs=1e-4)
    assert "11.1 % of 2880 are 320 tokens, 14.2 % of the 2252" in said.why
    held = found(trio_audit, "retention", "summary_b, trio")
    assert held.recomputed == pytest.approx(322 / 2252)
    assert held.verdict == "not_comparable"
    kept = found(trio_audit, "retention", LLAVA)
    assert (kept.verdict, kept.recomputed) == ("supported", pytest.approx(64 / 576))


def test_megabytes_are_read_in_the_unit_that_fits_the_stated_text():
    """The reading is that under which the stated text is there: 636 tokens of 524 288 bytes are 333.4 MB or 318 MiB."""
    for dense, unit in (("333.4", "MB"), ("318", "MiB")):
        document = audited(f"  t: {{rows: {{baseline: {{text_tokens: 60, kv_mb: {dense}}}}}}}\n")
        one = found(document, "kv_mb")
        assert (one.verdict, one.convention) == ("supported", f"{unit}, float16")
    wrong = found(audited("  t: {rows: {baseline: {text_tokens: 60, kv_mib: 333.4}}}\n"), "kv_mib")
    assert wrong.verdict == "overstated"
    twice = found(audited("  t: {dtype: float32, rows: {baseline: {text_tokens: 60, kv_mib: 636}}}\n"), "kv_mib")
    assert (twice.verdict, twice.recomputed) == ("supported", 636)  # a token of float32 takes twice as many bytes


def test_a_cache_that_holds_the_picture_in_only_one_unit_is_underdetermined():
    """Another row is in MB of 10⁶ bytes; by them 590 MB are 1125 tokens, by MiB 1180, and 1150 are said to come in."""
    tables = (
        "  t: {rows: {baseline: {text_tokens: 60, kv_mb: 333.4}}}\n  u: {rows: {baseline: {model: b, kv_mb: KV}}}\n"
    )
    one = found(audited(tables.replace("KV", "590"), other="1150"), "kv_mb", "u, baseline")
    assert (one.verdict, one.recomputed) == ("underdetermined", pytest.approx(1125.3, abs=0.1))
    few = found(audited(tables.replace("KV", "540"), other="1150"), "kv_mb", "u, baseline")
    assert few.verdict == "not_comparable"  # in MiB they are 1080


def test_a_retention_is_compared_with_its_cache():
    for retention, verdict in (("0.111", "supported"), ("0.05", "overstated"), ("0.3", "understated")):
        document = of_row(f"{{retention: {retention}, kv_mb: 62}}", "{kv_mb: 318}")
        one = found(document, "retention")
        assert (one.verdict, one.recomputed) == (verdict, pytest.approx(64 / 576))


def test_a_retention_in_few_digits_may_be_that_of_either_row():
    """22 % may be 22.2 or 22.8 %, which both stand elsewhere: the cache's 22.7 % do not contradict it."""
    document = audited(
        "  t: {rows: {baseline: {kv_mib: 318}, prune 22%: {kv_mib: 95.5}}}\n"
        "  u: {rows: {prune 22.2%: {total_s: 9}, prune 22.8%: {total_s: 8}}}\n"
    )
    assert found(document, "retention").verdict == "supported"
    only = audited(
        "  t: {rows: {baseline: {kv_mib: 318}, prune 22%: {kv_mib: 95.5}}}\n  u: {rows: {prune 22.2%: {total_s: 9}}}\n"
    )
    assert found(only, "retention").verdict == "overstated"  # where 22 % can only be those 22.2 %


def test_each_model_has_its_own_number_of_text_tokens():
    """One prompt, two tokenizers: 60 tokens beside 576, and 100 beside 1150."""
    document = audited(
        "  t: {rows: {baseline: {kv_mib: 318}, prune 50%: {kv_mib: 174}}}\n"
        "  u: {rows: {baseline: {model: b, kv_mib: 625}, prune 50%: {model: b, kv_mib: 337.5}}}\n",
        other="1150",
    )
    assert [(one.quantity, one.verdict) for one in document.claims] == [
        *[("kv_mib", "supported")] * 2,
        *[("retention", "supported")] * 2,
    ]


def test_without_the_text_a_pruned_cache_does_not_decide_its_retention():
    """Nothing says how much of it is text: the only dense cache holds fewer tokens than the model's visual ones."""
    document = of_row("{retention: 0.111, kv_mb: 62}", "{kv_mb: 200}")
    assert found(document, "retention").verdict == "underdetermined"
    assert found(document, "kv_mb").verdict == "not_comparable"
