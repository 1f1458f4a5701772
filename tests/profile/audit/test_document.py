"""Audits: what comes out of TRIO's claims, of claims made up to hold or to fail, and how it is shown."""

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from tests.profile.examples import dense as dense_record
from tests.profile.examples import environment, measurement, study
from tests.profile.papers import PLANTS, paper, planted
from trio_profile.audit.checks import plausible
from trio_profile.audit.claims import TEMPLATE, builtin
from trio_profile.audit.document import AuditDocument, audit
from trio_profile.audit.finding import Finding, number
from trio_profile.audit.reader import of_source, read
from trio_profile.audit.source import parse
from trio_profile.cli import run
from trio_profile.errors import ClaimsError
from trio_profile.findings import audit as page
from trio_profile.records.store import Store
from trio_profile.render import render

MODEL = "{layers: 32, hidden: 4096, intermediate: 11008, heads: 32, vocab: 32064, visual_tokens: 576}"


def audited(tables: str, *, method: str = "{}", model: str = MODEL, device: str | None = None) -> AuditDocument:
    text = f"paper: 'PRUNE: x'\nmodels:\n  vl: {model}\nmethod: {method}\ntables:\n{tables}"
    return audit(of_source(parse(text, "claims.yaml"), "claims"), device)


def of_row(body: str, dense: str, **options) -> AuditDocument:
    return audited(f"  t:\n    rows:\n      baseline: {dense}\n      prune: {body}\n", **options)


def found(document: AuditDocument, quantity: str, where: str = "", printed: str | None = None) -> Finding:
    """The one finding of a quantity at a place."""
    (one,) = [
        finding
        for finding in document.claims
        if finding.quantity == quantity
        and (where in finding.where.split("; ") or not where)
        and (printed is None or finding.printed == printed)
    ]
    return one


# --- TRIO's paper ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trio() -> AuditDocument:
    return audit(read("trio-2026"))


NEXT = "repository_readme, llava-next-7b 11.1pct"
LLAVA = "repository_readme, llava-1.5-7b 11.1pct"


def test_the_dense_flops_are_the_papers_formula(trio: AuditDocument):
    by_print = {one.printed: one for one in trio.claims if one.check == "work" and one.quantity == "flops_t"}
    dense, small = by_print["16.67"], by_print["2.98"]
    assert (dense.verdict, dense.convention, dense.recomputed) == ("supported", "visual-ffn2-macs", 16.6698418176)
    assert "n = 2880" in dense.why and "No text is counted" in dense.why
    assert (small.verdict, small.convention, small.recomputed) == ("supported", "visual-ffn2-macs", 2.986076012544)
    assert "2.98 cut off, not rounded" in small.why


def test_the_cache_of_the_same_row_holds_2312_tokens(trio: AuditDocument):
    (cache,) = [one for one in trio.claims if one.check == "cache" and one.printed == "1156"]
    assert cache.where.split("; ")[0] == "summary_b, baseline"
    assert (cache.verdict, cache.recomputed, cache.interval) == ("not_comparable", 2312, (2311, 2314))
    assert "fewer than the 2880 visual tokens that its 16.67 TFLOPs are counted for" in cache.why
    assert "2204.9" in cache.why  # were MB 10⁶ bytes, it would hold fewer still
    (small,) = [one for one in trio.claims if one.check == "cache" and one.printed == "318"]
    assert (small.verdict, small.recomputed) == ("supported", 636)


def test_a_ninth_of_2880_is_a_seventh_of_what_came_in(trio: AuditDocument):
    said = found(trio, "retention", "headline, claims")
    assert (said.verdict, said.printed) == ("not_comparable", "0.111")
    assert said.recomputed == pytest.approx(0.1421, abs=1e-4)
    assert "11.1 % of 2880 are 320 tokens, 14.2 % of the 2252" in said.why
    held = found(trio, "retention", "summary_b, trio")
    assert held.recomputed == pytest.approx(322 / 2252)
    assert held.verdict == "not_comparable"
    kept = found(trio, "retention", LLAVA)
    assert (kept.verdict, kept.recomputed) == ("supported", pytest.approx(64 / 576))


def test_the_gammas_that_make_the_totals_right(trio: AuditDocument):
    small, large = found(trio, "gamma", LLAVA, "0.45"), found(trio, "gamma", NEXT, "2.68")
    assert small.recomputed == pytest.approx(1.07, abs=0.005)
    assert small.interval == (pytest.approx(1.0256, abs=1e-4), pytest.approx(1.1545, abs=1e-4))
    assert large.recomputed == pytest.approx(1.54, abs=0.005)
    assert large.interval is not None and large.interval[0] < 1.5298 < 1.5534 < large.interval[1]
    assert small.verdict == large.verdict == "underdetermined"
    assert "would decide it" in small.why
    (all_of_them,) = [one for one in trio.claims if one.why.startswith("No one γ explains these totals")]
    assert all_of_them.verdict == "not_comparable"
    assert LLAVA in all_of_them.where and NEXT in all_of_them.where
    (third,) = [one for one in trio.claims if one.printed == "5.61"]
    assert third.interval is not None and third.interval[1] < 1
    assert "below its formula" in third.why


def test_grid_is_not_the_average_that_its_table_states(trio: AuditDocument):
    grid = found(trio, "flops_t", "summary_b, grid")
    assert (grid.printed, grid.verdict) == ("1.9038", "not_comparable")
    assert grid.recomputed == pytest.approx(1.6988, abs=1e-4)
    assert grid.interval is not None
    # Whatever the schedule: 320 tokens in every layer at the least; all of them in three layers, and the rest in one
    # more, at the most.
    assert grid.interval[0] == pytest.approx(32 * _paper_macs(319.5) / 1e12)
    assert grid.interval[1] == pytest.approx((3 * _paper_macs(2880) + _paper_macs(32 * 321 - 3 * 2880)) / 1e12)
    assert grid.interval[1] < 1.9037
    implied = 359.233  # tokens, as the sentence says
    scale = (32 * implied - 2880) / (9 * 92 + 5 * 54 + 17 * 22)
    stages = ((1, 2880), (9, 92 * scale), (5, 54 * scale), (17, 22 * scale))
    assert sum(layers * _paper_macs(n) for layers, n in stages) / 1e12 == pytest.approx(1.9038, abs=1e-5)
    assert "right for an average of 359.233 tokens, 12.5 % of 2880" in grid.why


def _paper_macs(n: float) -> float:
    return 4 * n * 4096**2 + 2 * n * n * 4096 + 2 * n * 4096 * 11008


def test_two_times_are_printed_for_one_run(trio: AuditDocument):
    total = found(trio, "total_s", "summary_b, trio")
    assert (total.verdict, total.printed) == ("not_comparable", "2764 / 2733 / 2810")
    prefill = found(trio, "prefill_s", "summary_b, trio")
    assert (prefill.verdict, prefill.printed) == ("not_comparable", "1791 / 1769 / 1844")
    dense = found(trio, "total_s", "summary_b, baseline")
    assert (dense.verdict, dense.printed) == ("supported", "5921")


@pytest.mark.parametrize(
    ("where", "quantity", "printed", "value", "of", "how"),
    [
        ("headline, claims", "flops_ratio", "6.22", 16.67 / 2.68, "summary_b, trio", "rounded"),
        ("headline, claims", "kv_ratio", "6.05", 1156 / 191, "summary_b, trio", "rounded"),
        ("headline, claims", "inference_speedup", "2.14", 5921 / 2764, "summary_b, trio", "rounded"),
        ("headline, claims", "prefill_speedup", "2.75", 4934 / 1791, "summary_b, trio", "rounded"),
        ("summary_c, trio", "total_speedup", "2.14", 5921 / 2764, "summary_b, trio", "rounded"),
        (NEXT, "prefill_speedup", "2.67", 4934 / 1844, NEXT, "cut off, not rounded"),
        (NEXT, "total_speedup", "2.11", 5921 / 2810, NEXT, "rounded"),
        (NEXT, "flops_ratio", "6.22", 16.67 / 2.68, NEXT, "rounded"),
        (NEXT, "kv_ratio", "6.05", 1156 / 191, NEXT, "rounded"),
        (LLAVA, "flops_ratio", "6.62", 2.98 / 0.45, LLAVA, "rounded"),
        (LLAVA, "kv_ratio", "5.13", 318 / 62, LLAVA, "rounded"),
        (LLAVA, "prefill_speedup", "1.27", 1401 / 1106, LLAVA, "rounded"),
        (LLAVA, "total_speedup", "1.13", 2234 / 1978, LLAVA, "rounded"),
    ],
)
def test_every_printed_ratio_is_traced_to_its_row(trio, where, quantity, printed, value, of, how):
    one = found(trio, quantity, where)
    assert (one.printed, one.verdict) == (printed, "supported")
    assert one.recomputed == pytest.approx(value)
    assert f"in {of}" in one.why and f"{printed} {how}." in one.why


def test_the_headline_times_follow_from_one_of_the_runs_alone(trio: AuditDocument):
    total, prefill = (found(trio, q, "headline, claims").why for q in ("inference_speedup", "prefill_speedup"))
    assert "Not from 5921 / 2733 = 2.16648 in appendix_efficiency, trio 11pct" in total
    assert "5921 / 2810 = 2.10712" in total
    assert "Not from 4934 / 1769 = 2.78915" in prefill and "4934 / 1844 = 2.6757" in prefill


def test_the_break_even_lies_where_it_is_said_to(trio: AuditDocument):
    one = found(trio, "break_even")
    assert (one.verdict, one.printed) == ("supported", "between 0.66 and 0.77")
    assert one.recomputed == pytest.approx(0.66 + 0.11 * 400 / 616)
    assert one.interval is not None and 0.72 < one.interval[0] < one.recomputed < one.interval[1] < 0.75


def test_one_mean_is_not_that_of_its_scores_and_it_is_a_rivals(trio: AuditDocument):
    means = [one for one in trio.claims if one.check == "average"]
    assert len(means) == 40
    (wrong,) = [one for one in means if one.verdict != "supported"]
    assert (wrong.where, wrong.printed, wrong.verdict) == ("accuracy_llava_1_5, fastv 64", "74.0", "overstated")
    assert wrong.recomputed == pytest.approx(73.5527, abs=1e-4)


def test_scores_of_one_setting_that_differ(trio: AuditDocument):
    next_ = found(trio, "accuracy_kept_pct", "headline, claims")
    assert (next_.verdict, next_.printed) == ("not_comparable", "97.2 / 96.5")
    pair = [one for one in trio.claims if one.check == "duplicates" and one.printed == "98.2 / 98.1"]
    assert [one.verdict for one in pair] == ["supported"]  # 98.1 cut off, 98.2 rounded: nothing forces more


def test_the_choice_costs_less_than_nine_percent_of_the_dense_total(trio: AuditDocument):
    one = found(trio, "overhead_below_pct")
    assert (one.verdict, one.printed) == ("supported", "less than 9")
    assert one.recomputed == pytest.approx(100 * (2764 - 2256) / 5921)


def test_the_budgets_that_are_published_make_their_averages(trio: AuditDocument):
    averages = [one for one in trio.claims if one.check == "schedule"]
    assert [(one.where, one.recomputed, one.verdict) for one in averages] == [
        ("method, llava-1.5-7b avg 64", 64, "supported"),
        ("method, llava-1.5-7b avg 128", 128, "supported"),
        ("method, llava-1.5-7b w/ encoder avg 64", 64, "supported"),
        ("method, qwen2.5-vl-7b w/ encoder 11.1%", pytest.approx(0.1113055), "supported"),
    ]


def test_what_nothing_can_decide_says_what_would(trio: AuditDocument):
    open_ = [one for one in trio.claims if one.verdict == "underdetermined"]
    assert len(open_) == 9
    assert all("would decide it" in one.why for one in open_)
    (decoding,) = [one for one in open_ if one.quantity == "after_prefill"]
    assert "3235 - 2540 = 695 s" in decoding.why and "3827 - 3207 = 620 s" in decoding.why


@pytest.mark.parametrize("name", builtin())
def test_every_sum_in_a_sentence_can_be_redone(name: str):
    """What stands left of an equals sign is evaluated here; nothing contradicted is without such a sum or count."""
    document = audit(read(name))
    sums = 0
    for one in document.claims:
        for left, right, percent in re.findall(r"((?:[\d.()]+ ?[-+·/] ?)+[\d.()]+) = ([\d.]+)( %)?", one.why):
            while left.count("(") < left.count(")"):
                left = left[: left.rindex(")")] + left[left.rindex(")") + 1 :]
            while left.count("(") > left.count(")"):
                left = left[left.index("(") + 1 :]
            value = eval(left.replace("·", "*"), {"__builtins__": {}}) * (100 if percent else 1)
            assert value == pytest.approx(float(right.rstrip(".")), rel=1e-4), one.why
            sums += 1
        assert not one.inconsistent or one.recomputed is not None
    assert sums or name in ("llava-1.5-flops",)


# --- other papers ------------------------------------------------------------------------------------------------


def test_five_published_flops_of_one_prefill():
    document = audit(read("llava-1.5-flops"))
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


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("fastv", {"flops_of_dense_pct": "supported", "flops_g": "supported", "retention": "not_comparable"}),
        ("pyramiddrop", {"flops_reduction_pct": "supported", "flops_t": "supported", "tokens": "supported"}),
        ("sparsevlm", {"tokens": "overstated"}),
        ("visionzip", {"tokens": "supported", "retention": "supported"}),
        ("dart", {"overall_speedup": "underdetermined", "tokens": "not_comparable"}),
    ],
)
def test_claims_of_others(name: str, verdicts: dict[str, str]):
    assert {one.quantity: one.verdict for one in audit(read(name)).claims} == verdicts


def test_equal_tokens_of_sparsevlm_leave_out_the_layer_of_the_stage():
    values = [one.recomputed for one in audit(read("sparsevlm")).claims]
    assert values == [206.5, 145.40625, 82.25]


def test_the_example_of_the_document_is_one():
    text = (Path(__file__).parents[3] / "docs" / "claims.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert set(audited_paper(example[1]).tally) == {"supported"}


def test_the_template_holds():
    assert set(audit(read(str(TEMPLATE))).tally) == {"supported"}


# --- papers made up to hold, and to fail -------------------------------------------------------------------------


def audited_paper(text: str) -> AuditDocument:
    return audit(of_source(parse(text, "paper.yaml"), "paper"))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_consistent_papers_are_supported_in_every_figure(first: int):
    for seed in range(first, first + 20):
        document = audited_paper(paper(seed).text)
        assert set(document.tally) == {"supported"}, (
            seed,
            [one for one in document.claims if one.verdict != "supported"],
        )
        assert len(document.claims) > 10


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_one_inconsistency_is_caught_and_named(first: int):
    for seed in range(first, first + 20):
        made, kind, where, quantities = planted(seed)
        named = [
            one
            for one in audited_paper(made.text).claims
            if one.inconsistent and where in one.where.split("; ") and one.quantity in quantities
        ]
        assert named, (seed, kind, where)


def test_every_kind_of_inconsistency_is_planted():
    assert {planted(seed)[1] for seed in range(200)} == set(PLANTS)


# --- one check at a time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [
        ("prefill_speedup: 2.00", "supported"),
        ("prefill_speedup: 2.2", "overstated"),
        ("prefill_speedup: 1.8", "understated"),
        ("prefill_reduction_pct: 50", "supported"),
        ("prefill_reduction_pct: 55", "overstated"),
        ("prefill_of_dense_pct: 50.0", "supported"),
        ("prefill_of_dense_pct: 45", "overstated"),
        ("prefill_of_dense_pct: 55", "understated"),
    ],
)
def test_a_ratio_beside_its_figures(printed: str, verdict: str):
    document = of_row(f"{{prefill_ms: 50.0, {printed}}}", "{prefill_s: 0.1000}")
    assert document.claims[0].verdict == verdict
    assert document.claims[0].recomputed == pytest.approx(2 if "speedup" in printed else 50)


def test_a_ratio_between_those_of_two_rows_is_of_neither():
    document = audited(
        "  a: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 100}}}\n"
        "  b: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 80}}}\n"
        "  c: {retention_pct: 10, claims: {total_speedup: 2.25}}\n"
    )
    one = found(document, "total_speedup")
    assert one.verdict == "not_comparable"
    assert "It follows from no row: 200 / 100 = 2 in a, prune 10%. Nor 200 / 80 = 2.5 in b, prune 10%." in one.why


def test_a_ratio_is_traced_to_the_row_that_prints_it_without_help_of_rounding():
    document = audited(
        "  a: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 99}}}\n"
        "  b: {rows: {baseline: {total_s: 200}, prune 10%: {total_s: 100}}}\n"
        "  c: {retention_pct: 10, claims: {total_speedup: 2.00}}\n"
    )
    one = found(document, "total_speedup")
    assert one.why == "200 / 100 = 2 in b, prune 10%: 2.00 rounded."
    assert (one.recomputed, one.interval) == (2, (199.5 / 101, 201 / 99.5))
    alone = found(
        audited("  a: {rows: {baseline: {total_s: 200}, prune: {total_s: 99, total_speedup: 2.00}}}\n"), "total_speedup"
    )
    assert alone.why.endswith("2.00 within what the rounding of its figures allows.")


def test_a_ratio_without_figures_is_open():
    one = found(audited("  c: {retention_pct: 10, claims: {total_speedup: 2.25}}\n"), "total_speedup")
    assert (one.verdict, one.recomputed) == ("underdetermined", None)
    other = audited("  c: {rows: {baseline: {total_s: 5}, rival: {total_s: 2}}, claims: {total_speedup: 2.5}}\n")
    assert found(other, "total_speedup").verdict == "underdetermined"  # a rival's times are not the method's


def test_figures_of_other_datasets_are_other_figures():
    document = audited(
        "  a: {dataset: POPE, rows: {baseline: {total_s: 200}}}\n  b: {dataset: MME, rows: {baseline: {total_s: 90}}}\n"
    )
    assert document.claims == ()
    assert document.alone == ("a, baseline", "b, baseline")


def test_a_setting_in_few_digits_is_held_against_neither_of_two():
    document = audited(
        "  a: {rows: {prune 22.2%: {total_s: 200}, prune 22.4%: {total_s: 210}}}\n"
        "  b: {rows: {prune 22%: {total_s: 210}}}\n"
    )
    assert document.claims == ()


def test_megabytes_of_a_million_bytes_are_read_as_such():
    """The reading is that under which the stated text is there: 636 tokens of 524 288 bytes are 333.4 MB or 318 MiB."""
    for dense, unit in (("333.4", "MB"), ("318", "MiB")):
        document = audited(f"  t: {{text_tokens: 60, rows: {{baseline: {{kv_mb: {dense}}}}}}}\n")
        one = found(document, "kv_mb")
        assert (one.verdict, one.convention) == ("supported", f"{unit}, float16")
    wrong = found(audited("  t: {text_tokens: 60, rows: {baseline: {kv_mib: 333.4}}}\n"), "kv_mib")
    assert wrong.verdict == "overstated"


def test_a_cache_into_which_the_picture_fits_in_one_unit_alone_is_open():
    """Another row is in MB of 10⁶ bytes; by them 590 MB are 1125 tokens, by MiB 1180, and 1150 are said to come in."""
    text = (
        f"paper: 'PRUNE: x'\nmodels: {{vl: {MODEL}, b: {MODEL.replace('576', '1150')}}}\ntables:\n"
        "  t: {text_tokens: 60, rows: {vl baseline: {kv_mb: 333.4}}}\n"
        "  u: {rows: {b baseline: {kv_mb: KV}}}\n"
    )
    one = found(audited_paper(text.replace("KV", "590")), "kv_mb", "u, b baseline")
    assert (one.verdict, one.recomputed) == ("underdetermined", pytest.approx(1125.3, abs=0.1))
    few = found(audited_paper(text.replace("KV", "540")), "kv_mb", "u, b baseline")
    assert few.verdict == "not_comparable"  # in MiB they are 1080


def test_a_cache_in_another_type():
    document = audited("  t: {dtype: float32, text_tokens: 60, rows: {baseline: {kv_mib: 636}}}\n")
    assert found(document, "kv_mib").verdict == "supported"
    assert found(document, "kv_mib").recomputed == 636


@pytest.mark.parametrize(
    ("retention", "verdict"), [("0.111", "supported"), ("0.05", "overstated"), ("0.3", "understated")]
)
def test_a_retention_and_its_cache(retention: str, verdict: str):
    document = of_row(f"{{retention: {retention}, kv_mb: 62}}", "{kv_mb: 318}")
    one = found(document, "retention")
    assert (one.verdict, one.recomputed) == (verdict, pytest.approx(64 / 576))


def test_a_retention_in_few_digits_is_no_other_rows():
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


def test_each_model_has_its_own_text():
    """One prompt, two tokenizers: 60 tokens beside 576, and 100 beside 1150."""
    document = audited_paper(
        f"paper: 'PRUNE: x'\nmodels: {{vl: {MODEL}, b: {MODEL.replace('576', '1150')}}}\ntables:\n"
        "  t: {rows: {vl baseline: {kv_mib: 318}, vl 50%: {kv_mib: 174}}}\n"
        "  u: {rows: {b baseline: {kv_mib: 625}, b 50%: {kv_mib: 337.5}}}\n"
    )
    assert [(one.quantity, one.verdict) for one in document.claims] == [
        *[("kv_mib", "supported")] * 2,
        *[("retention", "supported")] * 2,
    ]


def test_without_the_text_a_pruned_cache_leaves_its_retention_open():
    """Nothing says how much of it is text: the only dense cache holds fewer tokens than the model's visual ones."""
    document = of_row("{retention: 0.111, kv_mb: 62}", "{kv_mb: 200}")
    assert found(document, "retention").verdict == "underdetermined"
    assert found(document, "kv_mb").verdict == "not_comparable"


def test_work_of_a_stated_convention():
    tables = "  t: {{convention: all-ffn3-macs, text_tokens: 36, rows: {{baseline: {{flops_t: {}}}}}}}\n"
    right = 32 * (612 * (4 * 4096**2 + 3 * 4096 * 11008) + 2 * 612**2 * 4096) / 1e12
    for print_, verdict in ((f"{right:.2f}", "supported"), ("5.0", "overstated"), ("3.0", "understated")):
        one = found(audited(tables.format(print_)), "flops_t")
        assert (one.verdict, one.recomputed) == (verdict, pytest.approx(right))


def test_macs_are_not_explained_by_flops():
    assert found(audited("  t: {rows: {baseline: {flops_t: 5.97}}}\n"), "flops_t").convention == "visual-ffn2-flops"
    one = found(audited("  t: {rows: {baseline: {macs_t: 5.97}}}\n"), "macs_t")
    assert one.convention is None or one.convention.endswith("-macs")


BUDGETS = "layers: [2], keep: [288]"


@pytest.mark.parametrize(("flops", "verdict"), [("1.57", "supported"), ("1.3", "overstated"), ("2.2", "understated")])
def test_pruned_work_of_printed_budgets(flops: str, verdict: str):
    document = of_row(f"{{{BUDGETS}, overhead: false, flops_t: {flops}}}", "{flops_t: 2.99}")
    one = found(document, "flops_t", "t, prune")
    assert one.recomputed == pytest.approx((2 * _paper_macs(576) + 30 * _paper_macs(288)) / 1e12)
    assert (one.verdict, one.convention) == (verdict, "visual-ffn2-macs")


@pytest.mark.parametrize(("flops", "verdict"), [("1.75", "supported"), ("1.57", "overstated"), ("2.2", "understated")])
def test_pruned_work_with_a_printed_gamma(flops: str, verdict: str):
    document = of_row(f"{{{BUDGETS}, flops_t: {flops}}}", "{flops_t: 2.99}", method="{gamma: 2.0}")
    one = found(document, "flops_t", "t, prune")
    assert one.recomputed == pytest.approx((4 * _paper_macs(576) + 30 * _paper_macs(288)) / 1e12)
    assert one.verdict == verdict


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
    low = (_paper_macs(576) + 31 * _paper_macs((0.111105 * 32 - 1) * 576 / 31)) / 1e12
    high = (_paper_macs(576) + 8 * _paper_macs((0.11112 * 32 - 1) * 576 / 8) + 23 * 0) / 1e12
    for flops, verdict in (("0.33", "supported"), ("0.30", "overstated"), ("0.40", "understated")):
        one = found(of_row(pruned.format(flops), dense, method=method), "flops_t", "t, prune")
        assert one.verdict == verdict
        assert one.interval == (pytest.approx(low), pytest.approx(high))


def test_a_choice_before_the_decoder_has_no_gamma():
    """No stage looks at anything: what is above F_inf is a choice of unknown work."""
    document = of_row("{encoder_keep: 288, flops_t: 1.9}", "{flops_t: 2.99}")
    one = found(document, "flops_t", "t, prune")
    assert (one.verdict, one.recomputed) == ("underdetermined", pytest.approx(32 * _paper_macs(288) / 1e12))


def test_a_gamma_below_what_the_paper_defines_is_overstated():
    method = "{gamma_at_least: 1}"
    one = found(of_row(f"{{{BUDGETS}, flops_t: 1.62}}", "{flops_t: 2.99}", method=method), "gamma")
    layers, stage = 2 * _paper_macs(576) + 30 * _paper_macs(288), _paper_macs(576)
    assert (one.verdict, one.recomputed) == ("overstated", pytest.approx((1.62e12 - layers) / stage))
    open_ = found(of_row(f"{{{BUDGETS}, flops_t: 1.62}}", "{flops_t: 2.99}"), "gamma")
    assert open_.verdict == "underdetermined"


def test_an_average_and_what_is_left_after_one_stage_are_two_counts():
    def verdict(body: str) -> str:
        return audited(f"  t: {{rows: {{prune: {{{body}}}}}}}\n").claims[0].verdict

    assert verdict("layers: [2], keep: [128], tokens: 156") == "supported"
    assert verdict("layers: [2], keep: [128], tokens: 128") == "not_comparable"
    assert verdict("layers: [2, 9], keep: [200, 128], tokens: 128") == "overstated"
    assert verdict("layers: [2, 9], keep: [200, 128], tokens: 300") == "understated"


def test_no_average_lies_below_what_the_unpruned_layers_cost():
    document = audited("  t: {rows: {prune 10%: {total_s: 5}}}\n", method="{pruning_layers: {vl: [8, 16]}}")
    one = found(document, "retention")
    assert (one.verdict, one.recomputed) == ("overstated", 0.25)


def test_parts_and_wholes():
    good = "{prefill_ms: 60, decode_ms: 40.4, total_ms: 100}"
    assert [one.verdict for one in audited(f"  t: {{rows: {{baseline: {good}}}}}\n").claims] == ["supported"]
    wrong = found(audited("  t: {rows: {baseline: {prefill_ms: 60, decode_ms: 30, total_s: 0.100}}}\n"), "total_s")
    assert (wrong.verdict, wrong.recomputed) == ("not_comparable", pytest.approx(0.09))
    longer = found(audited("  t: {rows: {baseline: {prefill_s: 61, total_s: 50}}}\n"), "prefill_s")
    assert longer.verdict == "not_comparable"


def test_parts_of_a_sample_against_all_samples():
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


@pytest.mark.parametrize(
    ("claim", "verdict"), [("[0.4, 0.6]", "supported"), ("[0.6, 0.8]", "overstated"), ("[0.1, 0.2]", "understated")]
)
def test_a_break_even_and_what_is_said_of_it(claim: str, verdict: str):
    series = "baseline_total_s: 100, total_s: {0.20: 60, 0.40: 90, 0.60: 110}"
    document = audited(f"  t: {{{series}, claims: {{break_even: {claim}}}}}\n")
    one = found(document, "break_even")
    assert (one.verdict, one.recomputed) == (verdict, pytest.approx(0.5))
    bare = found(audited(f"  t: {{{series}}}\n"), "break_even")
    assert (bare.verdict, bare.printed) == ("supported", "100")


def test_a_break_even_that_the_times_do_not_show_is_open():
    below = "baseline_total_s: 200, total_s: {0.2: 60, 0.4: 90}"
    twice = "baseline_total_s: 100, total_s: {0.2: 60, 0.4: 110, 0.6: 90, 0.8: 120}"
    for series in (below, twice, "note: none"):
        document = audited(f"  t: {{{series}, claims: {{break_even: [0.3, 0.5]}}}}\n")
        assert found(document, "break_even").verdict == "underdetermined"


@pytest.mark.parametrize(("device", "verdict"), [("NVIDIA A100 80GB", "overstated"), ("H100", "supported")])
def test_no_prefill_is_faster_than_its_device(device: str, verdict: str):
    """576 tokens of a 7B decoder are 7.47 TFLOPs at the least; 15 ms of them are 498 TFLOP/s."""
    document = audited(f"  t: {{device: {device}, rows: {{baseline: {{prefill_ms: 15.0}}}}}}\n")
    one = found(document, "prefill_ms")
    least = 2 * 32 * (576 * (4 * 4096**2 + 3 * 4096 * 11008) + 576 * 577 * 4096) / 1e12
    assert one.verdict == verdict
    assert one.recomputed == pytest.approx(1000 * least / plausible.peak(device))


def test_a_sum_of_prefills_needs_its_number():
    table = "  t: {{{} rows: {{baseline: {{prefill_s: 100}}}}}}\n"
    open_ = found(audited(table.format(""), device="a100"), "prefill_s")
    assert (open_.verdict, open_.unit) == ("underdetermined", "samples")
    assert open_.recomputed is not None and 4000 < open_.recomputed < 4300
    for samples, verdict in ((4000, "supported"), (5000, "overstated")):
        assert found(audited(table.format(f"samples: {samples},"), device="a100"), "prefill_s").verdict == verdict
    assert audited(table.format("device: one GPU,")).claims == ()  # a paper may name whatever it ran on


def test_a_pruned_prefill_is_held_against_its_own_least():
    row = "{retention: 0.11, prefill_ms: 1.0}"
    document = of_row(row, "{prefill_ms: 95}", device="a100")
    assert [one.verdict for one in document.claims if one.check == "roofline"] == ["supported", "overstated"]


def test_devices_are_known_by_their_names():
    assert plausible.peak("NVIDIA RTX-4090 24GB") == plausible.peak("rtx4090") == 331
    assert plausible.peak("NVIDIA L40S") == 367
    with pytest.raises(ClaimsError, match="device 'abacus' has no peak on our list; the nearest are"):
        plausible.peak("abacus")


def test_numbers_in_sentences():
    assert [number(Fraction(1, 3)), number(Fraction(2312)), number(0.5), number(2.6757)] == [
        *("0.333333", "2312", "0.5", "2.6757")
    ]


# --- how it is shown ---------------------------------------------------------------------------------------------


def test_one_document_with_the_names_that_scripts_rely_on(capsys):
    assert run(["audit", "trio-2026", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"format", "version", "environment", "study"} <= set(document)
    assert document["format"] == "trio-profile"
    names = {"where", "quantity", "printed", "recomputed", "verdict", "convention", "why"}
    verdicts = {"supported", "overstated", "understated", "not_comparable", "underdetermined"}
    assert all(names <= set(one) and one["verdict"] in verdicts for one in document["claims"])
    assert document["tally"] == {"overstated": 1, "not_comparable": 14, "underdetermined": 9, "supported": 72}
    assert AuditDocument.model_validate(document) == audit(read("trio-2026"))


def test_strict_is_an_exit_code(capsys, tmp_path: Path):
    assert run(["audit", "trio-2026", "--strict", "--json"]) == 1
    assert run(["audit", "visionzip", "--strict"]) == 0
    assert run(["audit", "llava-1.5-flops", "--strict"]) == 0  # open is not inconsistent
    assert run(["audit", "trio-2026"]) == 0


HOSTILE = "<b>[red]|`x`_\\&%$#{}~^*[/red]</script>"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A file whose every name is markup for somebody."""
    tree = {
        "paper": f"PRUNE: {HOSTILE}",
        "source": HOSTILE,
        "models": {HOSTILE: {"layers": "2", "hidden": "8", "intermediate": "16", "heads": "2", "visual_tokens": "20"}},
        "tables": {
            HOSTILE: {"where": HOSTILE, "rows": {"baseline": {"total_s": "8"}, f"{HOSTILE} 5%": {"total_s": "2"}}},
            "b": {"rows": {"baseline": {"total_s": "9"}, f"{HOSTILE} 5%": {"total_s": "3", "total_speedup": "3"}}},
        },
    }
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_names_stay_text_in_the_terminal(hostile: Path, capsys):
    assert run(["audit", str(hostile)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert HOSTILE in out.replace(" ", "") or HOSTILE in out


def test_names_stay_text_in_markdown(hostile: Path, capsys):
    assert run(["audit", str(hostile), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 3
    # A bar that is escaped ends no cell; an even number of backslashes before it would escape none.
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {8}
    assert "<b>" not in "\n".join(lines) and "&lt;b&gt;" in "\n".join(lines)


def test_names_stay_text_in_latex(hostile: Path, capsys):
    assert run(["audit", str(hostile), "--latex"]) == 0
    out = capsys.readouterr().out
    body = out[out.index("\\endhead") :]
    assert r"\textless{}b\textgreater{}" in body
    assert r"\_\textbackslash{}\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}" in body
    for line in body.splitlines()[1:-2]:
        assert len(re.findall(r"(?<!\\)&", line)) == 5 and line.endswith(r" \\")
    assert out.splitlines()[0].startswith("% claims: ")


def test_names_stay_text_in_the_report(hostile: Path, tmp_path: Path, capsys):
    assert run(["audit", str(hostile), "--out", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    html = Path(document["report"]).read_text()
    assert "<b>" not in html and html.count("</script>") == html.count("<script")
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["paper"] == f"PRUNE: {HOSTILE}"


def test_the_report_is_rebuilt_from_the_document(tmp_path: Path, capsys):
    assert run(["audit", "trio-2026", "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    html = (tmp_path / "report.html").read_text()
    assert len(html) < 1_000_000 and "Plotly" not in html
    (tmp_path / "report.html").unlink()
    assert run(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert (tmp_path / "report.html").read_text() == html
    assert run(["report", str(tmp_path)]) == 0
    assert "2.14" in capsys.readouterr().out


def test_a_page_says_what_holds_as_plainly_as_what_does_not():
    report = page.report(audit(read("trio-2026")))
    assert [one.id for one in report.pages] == ["verdict", "doubts", "open", "supported", "places"]
    html = render(report)
    assert "Audit <span>of</span> TRIO" in html
    fine = page.report(audit(read("visionzip")))
    assert [one.id for one in fine.pages] == ["verdict", "supported", "places"]


def test_the_published_report_is_that_of_the_claims():
    kept = Path(__file__).parents[3] / "reports" / "trio-2026"
    document = AuditDocument.model_validate_json((kept / "audit.json").read_bytes())
    assert document == audit(read("trio-2026"))
    assert (kept / "report.html").read_text() == render(page.report(document))


def test_a_template_is_written_once(tmp_path: Path, capsys):
    path = tmp_path / "mine.yaml"
    assert run(["audit", "--new", str(path)]) == 0
    assert path.read_text() == TEMPLATE.read_text()
    assert run(["audit", str(path), "--strict"]) == 0
    capsys.readouterr()
    path.write_text("mine")
    assert run(["audit", "--new", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a claims file, or one of dart"),
        (["trio-2026", "--new", "x.yaml"], "without CLAIMS"),
        (["trio-2026", "--json", "--latex"], "name one"),
        (["trio-2026", "--device", "abacus"], "device 'abacus' has no peak on our list"),
        (["trio-2026", "--measured", "nowhere"], "nowhere holds no measurements.jsonl"),
        (["trio-2026", "--out", "/dev/null/x"], "cannot make /dev/null/x"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert says in line and captured.out == ""
    assert list(tmp_path.iterdir()) == []


# --- beside our own measurements ---------------------------------------------------------------------------------


def kept_study(directory: Path, *, methods=("trio",), retentions=(0.1111, 0.5, 0.9), **fields) -> Path:
    store = Store(directory)
    store.open(study(methods, retentions=retentions, **fields), environment())
    store.append(dense_record())
    for retention in retentions:
        store.append(measurement(methods[0], retention, overhead_ms=3.5))
    return directory


def test_a_study_of_the_same_setting_stands_beside_the_print(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 0
    document = AuditDocument.model_validate_json(capsys.readouterr().out)
    assert document.environment == environment() and document.study is not None
    beside = {one.quantity: one.measured for one in document.claims if one.measured is not None}
    assert set(beside) == {"flops_ratio", "kv_ratio", "prefill_speedup", "total_speedup"}
    assert all(LLAVA in one.where for one in document.claims if one.measured is not None)
    speedup, kv = beside["prefill_speedup"], beside["kv_ratio"]
    assert speedup is not None and kv is not None
    assert speedup.ci95[0] < speedup.value < speedup.ci95[1] and speedup.samples == 30
    assert kv.ci95 == (kv.value, kv.value) and kv.value == pytest.approx(5.13, abs=0.02)
    plain = audit(read("trio-2026"))
    assert [one.verdict for one in document.claims] == [one.verdict for one in plain.claims]
    assert run(["audit", "trio-2026", "--measured", str(directory)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) saw" in shown
    assert "Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) counted 5.1" in shown


@pytest.mark.parametrize("other", [{"model": "pocket"}, {"methods": ("fastv",)}, {"retentions": (0.15, 0.5, 0.9)}])
def test_a_study_of_another_setting_says_so_and_adds_nothing(other: dict, tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study", **other)
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 0
    captured = capsys.readouterr()
    assert f"is a study of {other.get('model', 'llava-1.5-7b')}, and saw no setting" in captured.err
    assert all(one["measured"] is None for one in json.loads(captured.out)["claims"])


# --- light enough for a laptop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--json"], ["--markdown"], ["--latex"], ["--out", "out"]])
def test_an_audit_imports_neither_torch_nor_what_takes_as_long(more: list[str], tmp_path: Path):
    code = (
        "import sys; from trio_profile.cli import run; code = run(sys.argv[1:]); "
        "heavy = {'torch', 'transformers', 'scipy', 'numpy', 'plotly', 'trio_core.pruning'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    line = [sys.executable, "-c", code, "audit", "trio-2026", *more]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=here)
    assert done.returncode == 0, done.stderr
