"""The report of an audit: a paper's printed figures, what contradicts itself first, and the words for both."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.audit.document import VERDICTS, AuditDocument
from trio_profile.audit.finding import Finding, Measured, Verdict
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table, Terms

_MEANINGS: dict[Verdict, str] = {
    "overstated": "its own figures make less of the method than the print does.",
    "understated": "its own figures make more of the method than the print does.",
    "not_comparable": "figures of one setting differ, or one word stands for two things: they cannot be set against "
    "each other.",
    "underdetermined": "the figures allow more than one answer; the sentence says what would decide it.",
    "supported": "it follows from the other figures, or from the model's sizes, by the arithmetic beside it.",
}
_TONES: dict[Verdict, str] = {"supported": "gain", "underdetermined": "absent"}
_COLUMNS = ("printed", "recomputed", "why")


def report(document: AuditDocument) -> Report:
    """All pages of it."""
    facts = [document.source or "", f"{document.figures} printed figures", f"{len(document.claims)} findings"]
    return Report(
        subject="Audit",
        model=document.paper,
        facts=[fact for fact in facts if fact],
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(exclude={"report"}),
        joint="of",
    )


def verdict_page(document: AuditDocument) -> Page:
    """How many findings of which verdict, and what the words mean."""
    counts = [(words(verdict), str(count)) for verdict, count in document.tally.items()]
    meanings = [(words(verdict), _MEANINGS[verdict]) for verdict in document.tally]
    return Page(
        "verdict",
        "What holds and what does not",
        "Arithmetic on what is printed, and nothing else: each figure is recomputed from the others, with the interval "
        "that rounding allows. A verdict goes no further than the figures force.",
        [Sentences("", [summary(document)]), Terms("Findings", counts), Terms("Verdicts", meanings)],
    )


def doubts_page(document: AuditDocument) -> Page:
    """Figures that contradict each other."""
    return Page(
        "doubts",
        "Figures that contradict each other",
        "Each with the sum that shows it, to be redone by hand.",
        _tables(document, ("overstated", "understated", "not_comparable")),
    )


def open_page(document: AuditDocument) -> Page:
    """What cannot be decided."""
    return Page(
        "open",
        "What the figures leave open",
        "No figure contradicts these, and none settles them.",
        _tables(document, ("underdetermined",)),
    )


def supported_page(document: AuditDocument) -> Page:
    """What holds."""
    return Page(
        "supported",
        "What holds",
        "Figures that follow from the others. “Cut off” means that the last digit was not rounded.",
        _tables(document, ("supported",)),
    )


def places_page(document: AuditDocument) -> Page:
    """Where tables stand in the paper, and the rows that nothing tests."""
    blocks: list[Sentences | Chart | Table | Terms] = []
    if document.sources:
        blocks.append(Terms("Tables", list(document.sources.items())))
    if document.alone:
        blocks.append(Sentences("Rows that no other figure tests", list(document.alone)))
    return Page("places", "Where the figures stand", "Tables by the name that they have in the claims file.", blocks)


PAGES: tuple[Callable[[AuditDocument], Page], ...] = (
    verdict_page,
    doubts_page,
    open_page,
    supported_page,
    places_page,
)


def by_verdict(findings: Sequence[Finding]) -> list[Finding]:
    """As they are shown: what contradicts itself first, each verdict in the order of the checks."""
    return sorted(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def recomputed(finding: Finding) -> str:
    """The recomputed value with its unit, and the interval that rounding allows."""
    if finding.recomputed is None:
        return ""
    unit = {"share": "", "×": "×"}.get(finding.unit, f" {finding.unit}")
    text = f"{units.plain(finding.recomputed)}{unit}".rstrip()
    if finding.interval is None or finding.interval[0] == finding.interval[1]:
        return text
    return f"{text} [{units.plain(finding.interval[0])}, {units.plain(finding.interval[1])}]"


def why(finding: Finding, document: AuditDocument) -> str:
    """The arithmetic, and after it what our own study saw."""
    if finding.measured is None or document.environment is None or document.study is None:
        return finding.why
    where = f"on {document.environment.device_name} ({document.study.model}, {document.study.dtype})"
    return f"{finding.why} Our study {where} {_saw(finding, finding.measured)}."


def summary(document: AuditDocument) -> str:
    """How many findings of which verdict, and what stays untested."""
    counts = ", ".join(f"{count} {words(verdict)}" for verdict, count in document.tally.items())
    alone = f"; {len(document.alone)} rows stand alone, with no other figure to test them" if document.alone else ""
    return f"{document.figures} printed figures, {len(document.claims)} findings: {counts or 'none'}{alone}."


def words(verdict: Verdict) -> str:
    """A verdict as it is read."""
    return verdict.replace("_", " ")


def _saw(finding: Finding, seen: Measured) -> str:
    if finding.check == "break-even":
        return f"breaks even in total time at {units.percent_within(seen.value, seen.ci95)}"
    at = units.percent(seen.retention)
    if seen.samples is None:
        return f"counted {units.times(seen.value)} at {at}"
    return f"saw {units.times_within(seen.value, seen.ci95)} at {at} in {seen.samples} pairs"


def _tables(document: AuditDocument, verdicts: Sequence[Verdict]) -> list[Sentences | Chart | Table | Terms]:
    tables: list[Sentences | Chart | Table | Terms] = []
    for verdict in verdicts:
        rows = [_row(finding, document) for finding in document.claims if finding.verdict == verdict]
        if rows:
            tables.append(Table(words(verdict).capitalize(), _COLUMNS, rows, prose=True))
    return tables


def _row(finding: Finding, document: AuditDocument) -> list[Entry]:
    return [
        Entry(f"{finding.quantity} {finding.printed}", note=finding.where),
        Entry(recomputed(finding), note=finding.convention or "", tone=_TONES.get(finding.verdict, "loss")),
        Entry(why(finding, document)),
    ]
