"""The report of an audit, in every form that it is read in."""

import re
from pathlib import Path

import pytest

from tests.core.tiny import fast_first
from tests.places import REPORTS
from tests.profile.examples import environment, study
from tests.profile.kinds.audit.auditing import audit_of
from tests.profile.reading import rows, sentences
from trio_profile.inputs.claims.claims import builtin
from trio_profile.kinds.audit import report as pages
from trio_profile.kinds.audit.document import AuditDocument, Measured
from trio_profile.report.blocks import Sentences, Table
from trio_profile.study.running import write_report


def test_a_page_opens_with_its_finding_in_plain_words(trio_audit: AuditDocument):
    report = pages.report(trio_audit)
    assert [(page.id, bool(page.folded)) for page in report.pages] == [("verdict", False), ("doubts", True)]
    told = sentences(report)
    assert told[1] == (
        "A retention is a larger or smaller share of the tokens that came in: 11.1 % → 14.3 %; 11.0 % → 14.3 %; "
        "22.0 % → 25.1 %; 33.0 % → 36.1 %; 11.1 % → 14.2 %. Printed in “Summary of performance and efficiency "
        "comparisons, panel (b)”, the public repository's README and 3 other places."
    )
    labels = {finding.where.partition(", ")[0] for finding in trio_audit.claims} - {"method"}
    first = [line for block in report.pages[0].blocks for line in block.lines]
    assert not any(label in line for line in first for label in labels if "_" in label)


@pytest.mark.parametrize("name", fast_first(builtin(), *({*builtin()} - {"video"})))  # its audit takes seconds
def test_each_finding_has_a_sentence(name: str):
    document = audit_of(name)
    for finding in document.claims:
        (line,) = pages.plain([finding], document)
        assert line[0].isupper() and ". Printed in " in line
    unknown = document.claims[0].model_copy(update={"recomputed": None})
    assert pages.plain([unknown], document)[0].startswith("Nothing else that is printed decides: ")


def test_findings_of_another_version_are_shown(trio_audit: AuditDocument):
    """Its checks, its quantities and its prints may be unknown here."""
    (odd, share, *others) = trio_audit.claims
    odd = odd.model_copy(update={"check": "astrology", "quantity": "luck", "unit": "", "verdict": "overstated"})
    odd = odd.model_copy(update={"recomputed": 3.0, "interval": None})
    share = odd.model_copy(update={"check": "cache", "quantity": "retention", "printed": "a third"})
    report = pages.report(trio_audit.model_copy(update={"claims": (odd, share, *others)}))
    told = sentences(report)
    assert any(line.startswith("By a check of another version of trio-profile, ") and "luck" in line for line in told)
    assert any("a third" in line for line in told)


def test_every_finding_stands_in_the_table_of_its_verdict(trio_audit: AuditDocument):
    tables = [block for block in pages.report(trio_audit).pages[1].blocks if isinstance(block, Table)]
    for (verdict, count), found in zip(trio_audit.tally.items(), map(rows, tables), strict=True):
        assert len(found) == count
        findings = [finding for finding in trio_audit.claims if finding.verdict == verdict]
        for finding, (figure, why) in zip(findings, found, strict=True):
            assert finding.quantity in figure and finding.printed in figure
            assert why == f"{finding.why} {finding.where}"


def test_a_recomputed_value_has_its_unit_and_interval(trio_audit: AuditDocument):
    (mean,) = [one for one in trio_audit.claims if one.verdict == "overstated"]
    assert pages.recomputed(mean) == "73.5527 % [73.3806, 73.7423]"
    assert pages.recomputed(mean.model_copy(update={"recomputed": None})) == ""
    exact = mean.model_copy(update={"recomputed": 2.0, "interval": (2.0, 2.0), "unit": "×"})
    assert pages.recomputed(exact) == "2×"


def test_the_result_of_our_own_study_follows_a_finding(trio_audit: AuditDocument):
    finding = next(one for one in trio_audit.claims if one.quantity == "prefill_speedup")
    ours = Measured(value=1.9, ci95=(1.8, 2.0), method="trio", retention=0.111, samples=30)
    with_study = trio_audit.model_copy(update={"environment": environment(), "study": study()})

    def told(measured: Measured | None, **fields) -> str:
        return pages.plain([finding.model_copy(update={"measured": measured, **fields})], with_study)[0]

    assert told(ours).endswith("Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) has 1.90× [1.80, 2.00] at 11.1 %.")
    assert "has 5.13× at 11.1 %." in told(ours.model_copy(update={"samples": None, "value": 5.13}))
    assert "breaks even in total time at" in told(ours, check="break-even")
    assert "Our study" not in told(None)


@pytest.mark.slow
def test_a_page_says_what_was_not_read_at_its_source():
    document = audit_of("video")
    report = pages.report(document)
    blocks = {block.heading: block.lines for block in report.pages[0].blocks if isinstance(block, Sentences)}
    first, dense, *others = blocks["Not checked at the source"]
    assert "17 of 30 findings hold" in first and "48.82, 40.8 and 41.4 TFLOPs" in dense
    assert any("prefill speed-up 7.1× → 2.05×; prefill speed-up 4.7× → 1.88×" in one for one in others)


@pytest.mark.parametrize(
    ("name", "claims"), fast_first([("trio-2026", "trio-2026"), ("video-claims", "video")], "trio-2026")
)
def test_the_published_report_is_that_of_the_claims(name: str, claims: str, tmp_path: Path):
    kept = REPORTS / name
    document = AuditDocument.model_validate_json((kept / "audit.json").read_bytes())
    assert document.model_copy(update={"sessions": ()}) == audit_of(claims)
    write_report(kept, tmp_path / "again.html")
    shown = [_without_style(page.read_text()) for page in (kept / "report.html", tmp_path / "again.html")]
    assert shown[0] == shown[1]


def _without_style(page: str) -> str:
    """A page without its styles and scripts, but with its data: these say what it tells."""
    return re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
