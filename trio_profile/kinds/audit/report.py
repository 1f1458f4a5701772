"""The report of an audit: in plain words what contradicts itself, what is open and what holds; then the arithmetic."""

from collections.abc import Callable, Sequence
from itertools import groupby

from trio_profile import units
from trio_profile.cost.printed import Printed
from trio_profile.inputs.claims.claims import QUANTITIES
from trio_profile.kinds.audit.document import INCONSISTENT, AuditDocument, Finding, Verdict
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.text import listed

_MEANINGS: dict[Verdict, str] = {
    "overstated": "The figure makes the method look better than the paper's other figures do.",
    "understated": "The figure makes the method look worse than the paper's other figures do.",
    "not_comparable": "Figures of one setting differ, or one word stands for two things. They cannot be compared.",
    "underdetermined": "The figures allow more than one answer. The explanation says what would decide it.",
    "not_checked_at_the_source": "A figure is from a digest, not from the printed page. The digest may be wrong.",
    "supported": "The figure follows from the other figures, or from the model's sizes, by the arithmetic shown.",
}
_UNDECIDED = "Nothing else that is printed decides"
_OTHER = "By a check of another version of trio-profile, a figure is another one"
_PLAIN = {
    "cache retention": "A retention is a larger or smaller share of the tokens that came in",
    "cache not_comparable": "A cache holds fewer tokens, text included, than the picture has",
    "cache": "A cache holds so many tokens, text included",
    "duplicates": "One setting is printed with several values",
    "gammas": "No one γ explains the FLOPs",
    "work gamma not_comparable": "FLOPs need a γ below the paper's own bound",
    "work gamma": "FLOPs need this γ in the paper's formula",
    "work underdetermined": "No known convention gives the printed work",
    "work": "The stated setting costs other work",
    "ratio": "A ratio does not follow from the figures that it is made of",
    "schedule": "A schedule makes another average than it states",
    "samples": "By its parts, a time is that of at most so many samples",
    "sum after_prefill": "After the prefill, more kept tokens take less time",
    "sum": "A time is not the sum of its parts",
    "average": "An average is not the mean of its scores",
    "break-even": "The printed times cross at another retention",
    "roofline": "A time is shorter than the GPU needs",
    "operators": "A time is far from what an engine's operators are predicted to take",
    "tower prefill_speedup": "End to end, a speed-up of the decoder is at most this, because the tower stays",
    "tower vision_of_ttft_pct": "A share of the tower means this speed-up of the time to first token",
    "tower": "The speed-ups of the decoder and of the whole mean that the rest takes this share of the dense time",
}
"""The sentence on each kind of contradiction or open question, in their order on the page."""
_ARROW = "An arrow leads from a printed figure to the one that follows from the paper's other figures."
_ALONE = ("duplicates", "gammas", "sum after_prefill")
"""These compare printed figures with each other, so nothing is recomputed."""
_MOST_PLACES = 2
"""A sentence names so many tables."""
_NARROW = 0.02
"""An interval that is narrower than this share of its value is left out of plain words."""


def report(document: AuditDocument) -> Report:
    """The report of an audit."""
    facts = [document.source or "", units.number_of(document.figures, "printed figure")]
    return Report(
        subject="Audit",
        model=document.paper,
        facts=[fact for fact in facts if fact],
        pages=[_verdict_page(document), _arithmetic_page(document)],
        data=document.model_dump_json(exclude={"report"}),
        preposition="of",
    )


def _verdict_page(document: AuditDocument) -> Page:
    """The contradictions and the open questions, in plain words."""
    blocks: list[Block] = []
    for heading, verdicts in (("What does not hold", INCONSISTENT), ("What is open", ("underdetermined",))):
        findings = [finding for finding in document.claims if finding.verdict in verdicts]
        if findings:
            blocks.append(Sentences(heading, plain(findings, document), tone="doubt"))
    if unchecked := [finding for finding in document.claims if finding.arithmetic is not None]:
        blocks.append(Sentences("Not checked at the source", _unchecked(unchecked, document), tone="doubt"))
    return Page("verdict", "Verdict", "", [Sentences("", [_ARROW]), *blocks] if blocks else [])


def _unchecked(findings: Sequence[Finding], document: AuditDocument) -> list[str]:
    """Count the findings that hold if the digest is right, and list the others in plain words."""
    right = [finding.model_copy(update={"verdict": finding.arithmetic}) for finding in findings]
    others = [finding for finding in right if finding.verdict != "supported"]
    holding = f"{len(right) - len(others)} of {units.number_of(len(right), 'finding')}"
    return [f"These figures are from a digest. If it is right, {holding} hold.", *plain(others, document)]


def plain(findings: Sequence[Finding], document: AuditDocument) -> list[str]:
    """Findings in plain words, those of one kind in one sentence, with the paper's names of their tables."""
    kinds = [*_PLAIN, _OTHER, _UNDECIDED]
    ordered = sorted(findings, key=lambda finding: kinds.index(_kind(finding)))
    lines: list[str] = []
    for kind, group in groupby(ordered, key=_kind):
        same = list(group)
        figures = "; ".join(dict.fromkeys(_figure(finding, kind) for finding in same))
        tables = list(dict.fromkeys(_table(place, document) for finding in same for place in finding.where.split("; ")))
        more = len(tables) - _MOST_PLACES
        tables = tables if more < 1 else [*tables[:_MOST_PLACES], units.number_of(more, "other place")]
        measured = dict.fromkeys(text for finding in same if (text := _measured(finding, document)))
        lines.append(" ".join([f"{_PLAIN.get(kind, kind)}: {figures}. Printed in {listed(tables)}.", *measured]))
    return lines


def _kind(finding: Finding) -> str:
    """The key of a finding in _PLAIN; _OTHER for a check of another version, _UNDECIDED without a recomputed value."""
    if finding.recomputed is None:
        return _UNDECIDED
    if finding.quantity == "gamma" and finding.unit == "largest / least":
        return "gammas"
    check, name = finding.check, finding.quantity
    keys = (finding.unit, f"{check} {name} {finding.verdict}", f"{check} {name}", f"{check} {finding.verdict}", check)
    return next((key for key in keys if key in _PLAIN), _OTHER)


def _figure(finding: Finding, kind: str) -> str:
    """A printed figure, and the recomputed one: `total speed-up 2.14× → 2.17×`."""
    name, unit = _name(finding.quantity)
    printed = f"{listed(finding.printed.split(' / '))} {unit}".strip().replace(" ×", "×").replace(" - ", " − ")
    if finding.quantity == "retention":
        printed = _percentage(finding.printed)
    if finding.quantity == "retention" or "gamma" in kind or kind == "sum after_prefill" or unit.endswith("FLOPs"):
        name = ""
    figure = f"{name} {printed}".strip()
    if finding.check == "duplicates" and finding.convention:
        figure += f" ({finding.convention})"
    if finding.recomputed is None or kind in _ALONE:
        return figure
    low, high = finding.interval or (0, 0)
    narrow = high - low < _NARROW * abs(finding.recomputed)
    again = recomputed(finding.model_copy(update={"interval": None}) if narrow else finding, _brief)
    if finding.unit == "share":
        again = units.percent(finding.recomputed)
    better = f", {words(finding.verdict)}" if finding.verdict in ("overstated", "understated") else ""
    return f"{figure} → {again}{better}"


def _percentage(printed: str) -> str:
    """A printed share in per cent. What is no number stays as it is."""
    try:
        return units.percent(float(Printed.of(printed).value))
    except ValueError:
        return printed


def _table(place: str, document: AuditDocument) -> str:
    """The paper's name of the table of a place, in quotation marks if it is a caption."""
    label = place.partition(", ")[0]
    where = document.sources.get(label, label)
    return f"“{where.removeprefix('Table: ')}”" if where.startswith("Table: ") else where.replace("The ", "the ")


def _arithmetic_page(document: AuditDocument) -> Page:
    """The arithmetic of all findings, a table for each verdict; the paper's tables; and rows that nothing tests."""
    columns = ("printed → recomputed", "why, and where in the claims file")
    blocks: list[Block] = []
    for verdict in document.tally:
        rows = [_row(finding, document) for finding in document.claims if finding.verdict == verdict]
        caption = f"{words(verdict).capitalize()}: {_MEANINGS[verdict]}"
        blocks.append(Table(caption, columns, rows, prose=True, detail=True))
    if document.sources:
        blocks.append(
            Terms("Tables of the paper, by their names in the claims file", list(document.sources.items()), detail=True)
        )
    if document.alone:
        blocks.append(Sentences("Rows that no other figure tests", list(document.alone), detail=True))
    how = "An audit is arithmetic on what is printed: it measures nothing."
    return Page("doubts", "The arithmetic", how, blocks, folded="Show the arithmetic of each finding")


def _row(finding: Finding, document: AuditDocument) -> list[Entry]:
    """A finding: the figure with its convention, the arithmetic, and where the figure stands."""
    figure, again = f"{finding.quantity} {finding.printed}", recomputed(finding)
    figure = f"{figure} → {again}" if again else figure
    why = f"{finding.why} {_measured(finding, document)}".strip()
    return [Entry(figure, note=finding.convention or ""), Entry(why, note=finding.where)]


def _brief(value: float) -> str:
    return units.short(value) if abs(value) < 1000 else units.plain(round(value))


def _name(name: str) -> tuple[str, str]:
    """The name of a quantity in a sentence, and the unit of its print."""
    if name == "tokens":
        return "average", "tokens"
    return (QUANTITIES[name].label, QUANTITIES[name].unit) if name in QUANTITIES else (name, "")


def recomputed(finding: Finding, number: Callable[[float], str] = units.plain) -> str:
    """The recomputed value with its unit, and the interval that rounding allows. number: writes a number."""
    if finding.recomputed is None:
        return ""
    unit = {"share": "", "×": "×"}.get(finding.unit, f" {finding.unit}")
    text = f"{number(finding.recomputed)}{unit}".rstrip()
    if finding.interval is None or finding.interval[0] == finding.interval[1]:
        return text
    return f"{text} [{number(finding.interval[0])}, {number(finding.interval[1])}]"


def words(verdict: Verdict) -> str:
    """A verdict in words."""
    return verdict.replace("_", " ")


def _measured(finding: Finding, document: AuditDocument) -> str:
    """The result of our own study of the same setting; empty without a study."""
    ours, study, environment = finding.measured, document.study, document.environment
    if ours is None or study is None or environment is None:
        return ""
    if finding.check == "break-even":
        result = f"breaks even in total time at {units.percent_within(ours.value, ours.ci95)}"
    else:
        ratio = units.times(ours.value) if ours.samples is None else units.times_within(ours.value, ours.ci95)
        result = f"has {ratio} at {units.percent(ours.retention)}"
    return f"Our study on {environment.device_name} ({study.model}, {study.dtype}) {result}."
