"""The report of an audit, in every form that it is read in."""

import re
from pathlib import Path

import pytest

from tests.profile.auditing import HOSTILE, hostile_claims
from tests.profile.examples import environment, study
from tests.profile.reading import blocks, in_terminal, rows, sentences, table
from trio_profile.findings import audit as pages
from trio_profile.findings.blocks import Table
from trio_profile.judge.audit.document import AuditDocument, audit
from trio_profile.judge.audit.finding import Measured
from trio_profile.judge.audit.reader import read
from trio_profile.render import render
from trio_profile.render.latex import latex
from trio_profile.render.markdown import markdown


@pytest.fixture(scope="module")
def trio() -> AuditDocument:
    return audit(read("trio-2026"))


@pytest.fixture
def hostile(tmp_path: Path) -> AuditDocument:
    """An audit of a file in which every name is markup for somebody."""
    return audit(read(str(hostile_claims(tmp_path))))


def test_a_page_says_what_holds_as_plainly_as_what_does_not(trio: AuditDocument):
    report = pages.report(trio)
    assert [one.id for one in report.pages] == ["verdict", "doubts", "open", "supported", "places"]
    assert "Audit <span>of</span> TRIO" in render(report)
    fine = pages.report(audit(read("visionzip")))
    assert [one.id for one in fine.pages] == ["verdict", "supported", "places"]


def test_the_first_sentence_is_the_tally(trio: AuditDocument):
    assert sentences(pages.report(trio))[0] == (
        "491 printed figures, 96 findings: 1 overstated, 14 not comparable, 9 underdetermined, 72 supported. "
        "No other figure tests 26 rows."
    )
    tally = rows(table(pages.report(trio), "Findings by verdict"))
    assert tally[0][:2] == ["overstated", "1"] and all(row[2].endswith(".") for row in tally)


def test_every_finding_stands_in_the_table_of_its_verdict(trio: AuditDocument):
    report = pages.report(trio)
    for verdict, count in trio.tally.items():
        found = rows(table(report, pages.words(verdict).capitalize()))
        assert len(found) == count
        for finding, (figure, why) in zip((one for one in trio.claims if one.verdict == verdict), found, strict=True):
            assert finding.quantity in figure and finding.printed in figure and finding.where in figure
            assert why == finding.why


def test_what_holds_is_a_detail_and_contradictions_are_not(trio: AuditDocument):
    tables = {block.caption: block.detail for block in blocks(pages.report(trio), Table)}
    assert tables["Supported"] and not tables["Overstated"] and not tables["Underdetermined"]


def test_contradictions_come_first(trio: AuditDocument):
    first, *_, last = pages.by_verdict(trio.claims)
    assert (first.verdict, last.verdict) == ("overstated", "supported")


def test_a_recomputed_value_has_its_unit_and_interval(trio: AuditDocument):
    (mean,) = [one for one in trio.claims if one.verdict == "overstated"]
    assert pages.recomputed(mean) == "73.5527 % [73.3806, 73.7423]"
    assert pages.recomputed(mean.model_copy(update={"recomputed": None})) == ""
    exact = mean.model_copy(update={"recomputed": 2.0, "interval": (2.0, 2.0), "unit": "×"})
    assert pages.recomputed(exact) == "2×"


def test_what_our_own_study_measured_follows_the_arithmetic(trio: AuditDocument):
    finding = next(one for one in trio.claims if one.quantity == "prefill_speedup")
    ours = Measured(value=1.9, ci95=(1.8, 2.0), method="trio", retention=0.111, samples=30)
    beside = trio.model_copy(update={"environment": environment(), "study": study()})
    told = pages.why(finding.model_copy(update={"measured": ours}), beside)
    assert told.startswith(finding.why)
    assert "Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) saw 1.90× [1.80, 2.00] at 11.1 % in 30 pairs." in told
    exact = ours.model_copy(update={"samples": None, "value": 5.13})
    assert "counted 5.13× at 11.1 %." in pages.why(finding.model_copy(update={"measured": exact}), beside)
    even = finding.model_copy(update={"measured": ours, "check": "break-even"})
    assert "breaks even in total time at" in pages.why(even, beside)
    assert pages.why(finding, trio) == finding.why


def test_names_stay_text_in_the_terminal(hostile: AuditDocument):
    assert in_terminal(pages.report(hostile), width=400, everything=True).count(HOSTILE) > 5


def test_names_stay_text_in_markdown(hostile: AuditDocument):
    text = markdown(pages.report(hostile))
    found = [line for line in text.splitlines() if line.startswith("|")]
    assert len([line for line in found if "speedup" in line]) == 1
    # A bar that is escaped ends no field; an even number of backslashes before it would escape none.
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in found} == {3, 4}
    assert "<b>" not in text and "&lt;b&gt;" in text


def test_names_stay_text_in_latex(hostile: AuditDocument):
    text = latex(pages.report(hostile))
    assert r"\textless{}b\textgreater{}" in text
    assert r"\_\textbackslash{}\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}" in text
    body = [line for line in text.splitlines() if line.endswith(r" \\") and "textless" in line]
    assert body and {len(re.findall(r"(?<!\\)&", line)) for line in body} == {1}


def test_names_stay_text_on_the_page(hostile: AuditDocument):
    html = render(pages.report(hostile))
    assert "<b>" not in html and html.count("</script>") == html.count("<script")


def test_the_published_report_is_that_of_the_claims(trio: AuditDocument):
    kept = Path(__file__).parents[3] / "reports" / "trio-2026"
    document = AuditDocument.model_validate_json((kept / "audit.json").read_bytes())
    assert document == trio
    shown = [_without_style(page) for page in ((kept / "report.html").read_text(), render(pages.report(document)))]
    assert shown[0] == shown[1]


def _without_style(page: str) -> str:
    """A page without its styles and scripts, but with its data: these say what it tells."""
    return re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
