"""The report of an audit: a paper's printed figures, what contradicts itself first, and what the verdicts mean."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table, Terms, Tone
from trio_profile.judge.audit.document import VERDICTS, AuditDocument
from trio_profile.judge.audit.finding import Finding, Measured, Verdict

_MEANINGS: dict[Verdict, str] = {
    "overstated": "The figure makes the method look better than the paper's other figures do.",
    "understated": "The figure makes the method look worse than the paper's other figures do.",
    "not_comparable": "Figures of one setting differ, or one word stands for two things. They cannot be compared.",
    "underdetermined": "The figures allow more than one answer. The explanation says what would decide it.",
    "supported": "The figure follows from the other figures, or from the model's sizes, by the arithmetic shown.",
}
_TONES: dict[Verdict, Tone] = {"supported": "gain", "underdetermined": "absent"}


def report(document: AuditDocument) -> Report:
    """The report of an audit."""
    facts = [
        document.source or "",
        units.number_of(document.figures, "printed figure"),
        units.number_of(len(document.claims), "finding"),
    ]
    return Report(
        subject="Audit",
        model=document.paper,
        facts=[fact for fact in facts if fact],
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(exclude={"report"}),
        preposition="of",
    )


def verdict_page(document: AuditDocument) -> Page:
    """How many findings have which verdict, and what the verdicts mean."""
    rows = [
        [Entry(words(verdict), tone=_TONES.get(verdict, "loss")), Entry(units.exact(count)), Entry(_MEANINGS[verdict])]
        for verdict, count in document.tally.items()
    ]
    blocks: list[Block] = [Sentences("", [summary(document)])]
    if rows:
        blocks.append(Table("Findings by verdict", ("verdict", "findings", "meaning"), rows, prose=True))
    return Page(
        "verdict",
        "What holds and what does not",
        "An audit is arithmetic on what is printed, and nothing else. Each figure is recomputed from the others, with "
        "the interval that rounding allows. A verdict says no more than the figures prove.",
        blocks,
    )


def doubts_page(document: AuditDocument) -> Page:
    """Figures that contradict each other."""
    return Page(
        "doubts",
        "Figures that contradict each other",
        "Each comes with the arithmetic that shows it. You can redo it by hand.",
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
        _tables(document, ("supported",), detail=True),
    )


def places_page(document: AuditDocument) -> Page:
    """Where tables stand in the paper, and the rows that nothing tests."""
    blocks: list[Block] = []
    if document.sources:
        blocks.append(Terms("Tables", list(document.sources.items()), detail=True))
    if document.alone:
        blocks.append(Sentences("Rows that no other figure tests", list(document.alone), detail=True))
    return Page("places", "Where the figures stand", "The claims file gives each table a name.", blocks)


PAGES: tuple[Callable[[AuditDocument], Page], ...] = (
    verdict_page,
    doubts_page,
    open_page,
    supported_page,
    places_page,
)


def _tables(document: AuditDocument, verdicts: Sequence[Verdict], *, detail: bool = False) -> list[Block]:
    """One table for each of the verdicts that occur."""
    columns = ("printed → recomputed", "why")
    tables: list[Block] = []
    for verdict in verdicts:
        rows = [_row(finding, document) for finding in document.claims if finding.verdict == verdict]
        if rows:
            tables.append(Table(words(verdict).capitalize(), columns, rows, prose=True, detail=detail))
    return tables


def _row(finding: Finding, document: AuditDocument) -> list[Entry]:
    """A finding: the figure, where it is printed and by which convention, and the arithmetic."""
    figure = f"{finding.quantity} {finding.printed}"
    again = recomputed(finding)
    place = f"{finding.where} ({finding.convention})" if finding.convention else finding.where
    return [Entry(f"{figure} → {again}" if again else figure, note=place), Entry(why(finding, document))]


def by_verdict(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order in which they are shown: contradictions first, each verdict in the order of the checks."""
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
    """The arithmetic, and after it what our own study measured."""
    if finding.measured is None or document.environment is None or document.study is None:
        return finding.why
    where = f"on {document.environment.device_name} ({document.study.model}, {document.study.dtype})"
    return f"{finding.why} Our study {where} {_saw(finding, finding.measured)}."


def summary(document: AuditDocument) -> str:
    """How many findings have which verdict, and how many rows stay untested."""
    counts = ", ".join(f"{count} {words(verdict)}" for verdict, count in document.tally.items())
    figures, findings = (
        units.number_of(document.figures, "printed figure"),
        units.number_of(len(document.claims), "finding"),
    )
    rows = units.number_of(len(document.alone), "row")
    alone = f" No other figure tests {rows}." if document.alone else ""
    return f"{figures}, {findings}{f': {counts}' if counts else ''}.{alone}"


def words(verdict: Verdict) -> str:
    """A verdict in words."""
    return verdict.replace("_", " ")


def _saw(finding: Finding, seen: Measured) -> str:
    """What our own study measured of the same setting, as the end of a sentence."""
    if finding.check == "break-even":
        return f"breaks even in total time at {units.percent_within(seen.value, seen.ci95)}"
    at = units.percent(seen.retention)
    if seen.samples is None:
        return f"counted {units.times(seen.value)} at {at}"
    return f"saw {units.times_within(seen.value, seen.ci95)} at {at} in {seen.samples} pairs"
