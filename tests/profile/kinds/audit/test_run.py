"""The document of an audit: TRIO's paper, other papers, and papers made up to hold or to fail."""

import re
from collections import Counter
from copy import deepcopy
from itertools import islice
from pathlib import Path

import pytest
import yaml

from tests.core.tiny import fast_first
from tests.fuzz.mutations import places
from tests.places import ROOT
from tests.profile.documents import keep
from tests.profile.examples import document as document_of
from tests.profile.examples import environment, measurement, study
from tests.profile.inputs.claims.test_claims import PAPER, claims
from tests.profile.kinds.audit.auditing import LLAVA, audit_of, audited, found
from tests.profile.kinds.audit.papers import PLANTS, paper, planted
from tests.profile.studying import make
from trio_profile.cli import run
from trio_profile.errors import ClaimsError, StoreError, StudyError
from trio_profile.inputs.claims.claims import TEMPLATE, builtin, read
from trio_profile.kinds.audit.document import VERDICTS, AuditDocument, Finding
from trio_profile.kinds.audit.run import audit, with_measured
from trio_profile.study import running


@pytest.fixture
def video() -> AuditDocument:
    """The audit of the claims on videos. It takes seconds, so it is made once a process."""
    return audit_of("video")


@pytest.mark.slow
@pytest.mark.parametrize("name", builtin())
def test_every_sum_in_a_sentence_can_be_redone(name: str):
    """What stands left of an equals sign is evaluated here; nothing contradicted is without such a sum or count."""
    document = audit_of(name)
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


def test_claims_of_other_papers_have_their_verdicts():
    for name, verdicts in (
        ("fastv", {"flops_of_dense_pct": "supported", "flops_g": "supported", "retention": "not_comparable"}),
        ("pyramiddrop", {"flops_reduction_pct": "supported", "flops_t": "supported", "tokens": "supported"}),
        ("sparsevlm", {"tokens": "overstated"}),
        ("visionzip", {"tokens": "supported", "retention": "supported"}),
        ("dart", {"overall_speedup": "underdetermined", "tokens": "not_comparable"}),
    ):
        assert {one.quantity: one.verdict for one in audit_of(name).claims} == verdicts


def test_the_example_in_the_documentation_and_the_template_are_supported():
    text = (ROOT / "docs" / "how-to" / "claims.md").read_text()
    example = re.search(r"```yaml title=[^\n]*\n(.*?)```", text, re.DOTALL)
    assert example is not None
    for complete in (claims(example[1]), read(str(TEMPLATE))):
        assert set(audit(complete).tally) == {"supported"}


@pytest.mark.parametrize("seeds", fast_first([range(10), range(10, 60)], range(10)))
def test_consistent_papers_are_supported_in_every_figure(seeds: range):
    for seed in seeds:
        document = audit(claims(paper(seed).text))
        open_ = [one for one in document.claims if one.verdict != "supported"]
        assert set(document.tally) == {"supported"}, (seed, open_)
        assert len(document.claims) > 10


@pytest.mark.parametrize("each", fast_first([1, 8], 1))
def test_an_inconsistency_of_each_kind_is_caught_and_named(each: int):
    """each: so many papers with each kind of inconsistency."""
    left = Counter(dict.fromkeys(PLANTS, each))
    for seed in range(300):
        made, kind, where, quantities = planted(seed)
        if left[kind]:
            left[kind] -= 1
            named = [
                one
                for one in audit(claims(made.text)).claims
                if one.inconsistent and where in one.where.split("; ") and one.quantity in quantities
            ]
            assert named, (seed, kind, where)
    assert not +left


def test_a_figure_from_a_digest_has_no_verdict_of_its_own():
    """What is said of it by arithmetic stands apart, and so it does where another table takes a figure from it."""
    digest = "a: {checked: false, rows: {baseline: {total_s: 200}, prune: {total_s: 100, total_speedup: 3.0}}}"
    document = audited(f"  {digest}\n  b: {{rows: {{prune: {{total_speedup: 2.0}}}}}}\n")
    claimed, stated = (found(document, "total_speedup", where) for where in ("b, prune", "a, prune"))
    assert (claimed.verdict, claimed.arithmetic) == ("not_checked_at_the_source", "supported")
    assert (stated.verdict, stated.arithmetic) == ("not_checked_at_the_source", "overstated")
    assert document.tally == {"not_checked_at_the_source": 2} and not document.inconsistent


# The formulas of the video papers, written out: width d, an FFN of width m, keys of width k, n visual tokens.
QWEN2_7B = {"layers": 28, "d": 3584, "m": 18944, "k": 4 * 128}
QWEN2_72B = {"layers": 80, "d": 8192, "m": 29568, "k": 8 * 128}


def _two_matrices(n: float, layers: int, d: int, m: int, k: int) -> float:
    return layers * (4 * n * d**2 + 2 * n**2 * d + 2 * n * d * m) / 1e12


def _gated(n: float, layers: int, d: int, m: int, k: int) -> float:
    return layers * (2 * n * d**2 + 2 * n * d * k + 2 * n**2 * d + 3 * n * d * m) / 1e12


def test_dense_and_pruned_work_of_video_is_reproduced(video: AuditDocument):
    for where, printed, worked, code in (
        ("holitom_results, dense", "40.8", _two_matrices(32 * 196, **QWEN2_7B), "visual-ffn2-macs"),
        ("holitom_backbones, dense 72b", "429.3", _two_matrices(32 * 196, **QWEN2_72B), "visual-ffn2-macs"),
        ("fastvid_table_5, dense", "48.82", _gated(32 * 196, **QWEN2_7B), "visual-ffn3-macs"),
        ("fastvid_table_5, fastvid", "4.04", _gated(608, **QWEN2_7B), "visual-ffn3-macs"),
        ("fastvid_table_3, fastvid", "24.1", _gated(3349.3, **QWEN2_7B), "visual-ffn3-macs"),
    ):
        (one,) = [one for one in video.claims if one.check == "work" and where in one.where.split("; ")]
        assert (one.printed, one.convention) == (printed, code)
        assert "supported" in (one.verdict, one.arithmetic)
        assert one.recomputed == pytest.approx(worked) and f"{worked:.{len(printed.partition('.')[2])}f}" == printed


def test_figures_of_video_from_a_digest_are_not_checked(video: AuditDocument):
    """Whatever rests on FastVID's and AOT's tables and on EarlyTom's profile, which no public page here shows."""
    for one in video.claims:
        digest = any(label in one.where + one.why for label in ("fastvid_table", "aot_table", "earlytom_figure"))
        assert (one.verdict == "not_checked_at_the_source") == digest == (one.arithmetic is not None), one
    assert video.tally.keys() == {*VERDICTS} - {"understated"}


def test_a_finding_rests_on_the_rows_that_it_names_and_not_on_rows_whose_names_hold_theirs():
    finding = Finding(
        check="ratios", where="b, trio", quantity="flops", printed="1", verdict="supported", why="a_1, trio 2: 3"
    )
    assert finding.rests_on("b, trio") and finding.rests_on("a_1, trio 2")
    assert not finding.rests_on("1, trio 2") and not finding.rests_on("a_1, tri")


# --- beside our own measurements -----------------------------------------------------------------------------------


def kept_study(directory: Path, **fields) -> Path:
    asked = study(retentions=(0.1111, 0.5, 0.9), **fields)
    return keep(directory, asked, [measurement(retention=at, overhead_ms=3.5) for at in asked.retentions]).directory


def test_a_study_of_the_same_setting_is_shown_beside_the_claim(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 0
    found = AuditDocument.model_validate_json(capsys.readouterr().out)
    assert found.environment == environment() and found.study is not None
    beside = {one.quantity: one.measured for one in found.claims if one.measured is not None}
    assert set(beside) == {"flops_ratio", "kv_ratio", "prefill_speedup", "total_speedup"}
    assert all(LLAVA in one.where for one in found.claims if one.measured is not None)
    speedup, kv = beside["prefill_speedup"], beside["kv_ratio"]
    assert speedup is not None and kv is not None
    assert speedup.ci95[0] < speedup.value < speedup.ci95[1] and speedup.samples == 30
    assert kv.ci95 == (kv.value, kv.value) and kv.value == pytest.approx(5.13, abs=0.02)
    plain = audit_of("trio-2026")
    assert [one.verdict for one in found.claims] == [one.verdict for one in plain.claims]


def test_a_study_of_another_setting_is_refused(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study", model="pocket")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 2
    captured = capsys.readouterr()
    assert "is a study of pocket and holds no setting" in captured.err and captured.out == ""


@pytest.mark.parametrize(("method", "retention"), [("fastv", 0.1111), ("trio", 0.15)])
def test_a_cell_of_another_setting_measures_no_claim(method: str, retention: float):
    cell = document_of(study((method,), retentions=(retention,)), [measurement(method, retention)])
    beside = with_measured(audit_of("trio-2026"), read("trio-2026"), cell)
    assert not [one for one in beside.claims if one.measured is not None]


# --- claims with anything in any place -------------------------------------------------------------------------------


RICH = (
    PAPER
    + """\
      random: {model: vl-7b, method: random, tokens: 128, text_tokens: 60, overhead: false, figures: {kv_ratio: 2},
               schedule: {layers: [2], keep: [99]}, break_even: [0.6, 0.7]}
    where: Table 1
    dataset: POPE
    device: A100
    samples: 8
    dtype: float16
    convention: visual-ffn2-macs
  scores:
    benchmarks: [GQA, MME]
    rows:
      dense: {model: vl-7b, method: dense, scores: [61.9, 1862]}
      prune: {model: vl-7b, method: prune, scores: [58, 1681], retention: 0.11, figures: {accuracy_kept_pct: 92.0}}
"""
)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C, if it is there: it is faster."""
PUT = [None, "", "x", "0", "1", "7", "0.5", "-1", "9e9", [], ["x"], ["1", "2"], {}, {"x": "1"}, {"model": ["x"]}]


@pytest.mark.parametrize("put", [*PUT[:3], *(pytest.param(put, marks=pytest.mark.slow) for put in PUT[3:])], ids=repr)
def test_any_value_in_any_place_is_read_or_refused_in_one_line(put):
    assert claims(RICH)
    whole = yaml.load(RICH, yaml.BaseLoader)
    for number, _ in enumerate(places(whole)):
        tree = deepcopy(whole)
        holder, key = next(islice(places(tree), number, None))
        holder[key] = put
        try:
            audit(claims(yaml.dump(tree, Dumper=DUMPER, allow_unicode=True)))
        except ClaimsError as error:
            assert re.match(r"claims.yaml, line \d+: ", str(error)) and "\n" not in str(error)


def test_an_audit_is_done_again_and_another_paper_is_refused(tmp_path):
    first = running.run(make("audit", claims="fastv"), tmp_path)
    again = running.run(make("audit", claims="fastv"), tmp_path)
    assert again.document.claims == first.document.claims
    assert again.document.sessions != first.document.sessions
    with pytest.raises(StoreError, match=r"holds another study: claims \('fastv' there, 'dart' here\)"):
        running.run(make("audit", claims="dart"), tmp_path)


def test_a_document_whose_question_is_unknown_or_was_edited_badly_is_not_overwritten(tmp_path):
    study = make("audit", claims="vtw")
    running.run(study, tmp_path)
    (tmp_path / "study.toml").write_text('verb = "audit"\nclaims = "vtw"\nseed = "many"\n')
    with pytest.raises(StudyError, match=r"study\.toml: seed = 'many'"):
        running.run(study, tmp_path)
    (tmp_path / "study.toml").unlink()
    with pytest.raises(StoreError, match="so nothing says what was asked; choose another --out"):
        running.run(make("audit", claims="dart"), tmp_path)
