"""The report of an audit, in every form that it is read in."""

import re
from pathlib import Path

import pytest

from tests.profile.auditing import HOSTILE, hostile_claims
from tests.profile.examples import environment, study
from tests.profile.reading import in_terminal, rows, sentences, table
from trio_profile.findings import audit as pages
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
    assert [bool(one.folded) for one in report.pages] == [False, True, True, True, True]
    assert "Audit <span>of</span> TRIO" in render(report)
    fine = pages.report(audit(read("visionzip")))
    assert [one.id for one in fine.pages] == ["verdict", "supported", "places"]


def test_a_page_opens_with_its_finding_and_the_names_of_the_papers_tables(trio: AuditDocument):
    report = pages.report(trio)
    assert (
        "15 contradict" in sentences(report)[0] and "491 printed figures, 96 findings: 1 over" in sentences(report)[1]
    )
    wrong = table(report, "What does not hold").rows
    assert len(wrong) == 15 and len(table(report, "What is open").rows) == 9
    assert wrong[0][0].text == "Accuracy kept of 74.0 %; its scores make 73.6 %."
    assert (wrong[0][2].text, wrong[0][2].note) == ("Performance comparison on LLaVA-1.5-7B", "fastv 64")
    labels = {finding.where.partition(", ")[0] for finding in trio.claims} - {"method"}
    assert not any(label in entry.text for row in wrong for entry in row for label in labels if "_" in label)
    counts = [[int(cell.replace("–", "0")) for cell in row[1:]] for row in rows(table(report, "What was checked"))]
    assert [sum(column) for column in zip(*counts, strict=True)] == [72, 15, 9]


def test_each_finding_has_a_sentence(trio: AuditDocument):
    for finding in trio.claims:
        assert pages.plain(finding)[0].isupper() and pages.plain(finding).endswith(".")
    unknown = trio.claims[0].model_copy(update={"recomputed": None})
    assert pages.plain(unknown).endswith("nothing else that is printed decides it.")


def test_every_finding_stands_in_the_table_of_its_verdict(trio: AuditDocument):
    report = pages.report(trio)
    for verdict, count in trio.tally.items():
        found = rows(table(report, pages.words(verdict).capitalize()))
        assert len(found) == count
        for finding, (figure, why) in zip((one for one in trio.claims if one.verdict == verdict), found, strict=True):
            assert finding.quantity in figure and finding.printed in figure and finding.where in figure
            assert why == finding.why


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
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in found} == {3}
    assert "<b>" not in text and "&lt;b&gt;" in text


def test_names_stay_text_in_latex(hostile: AuditDocument):
    text = latex(pages.report(hostile))
    assert r"\textless{}b\textgreater{}" in text
    assert r"\_\textbackslash{}\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}" in text
    body = [line for line in text.splitlines() if line.endswith(r" \\") and "textless" in line]
    assert body and {len(re.findall(r"(?<!\\)&", line)) for line in body} == {1}


def test_the_published_report_is_that_of_the_claims(trio: AuditDocument):
    kept = Path(__file__).parents[3] / "reports" / "trio-2026"
    document = AuditDocument.model_validate_json((kept / "audit.json").read_bytes())
    assert document == trio
    shown = [_without_style(page) for page in ((kept / "report.html").read_text(), render(pages.report(document)))]
    assert shown[0] == shown[1]


def _without_style(page: str) -> str:
    """A page without its styles and scripts, but with its data: these say what it tells."""
    return re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
