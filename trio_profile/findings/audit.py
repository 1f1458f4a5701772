"""The report of an audit: in plain words what contradicts itself, what is open and what holds; then the arithmetic."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.judge.audit.document import VERDICTS, AuditDocument
from trio_profile.judge.audit.finding import INCONSISTENT, Finding, Measured, Verdict
from trio_profile.judge.audit.quantities import quantity
from trio_profile.quantities.entries import Tone
from trio_profile.text import listed

_MEANINGS: dict[Verdict, str] = {
    "overstated": "The figure makes the method look better than the paper's other figures do.",
    "understated": "The figure makes the method look worse than the paper's other figures do.",
    "not_comparable": "Figures of one setting differ, or one word stands for two things. They cannot be compared.",
    "underdetermined": "The figures allow more than one answer. The explanation says what would decide it.",
    "supported": "The figure follows from the other figures, or from the model's sizes, by the arithmetic shown.",
}
_TONES: dict[Verdict, Tone] = {"supported": "gain", "underdetermined": "absent"}
_CHECKS = {
    "ratio": "Ratios, speed-ups and savings",
    "duplicates": "Figures printed more than once",
    "work": "FLOPs",
    "cache": "KV caches, and the retention that they hold",
    "schedule": "Budgets, and their average",
    "sum": "Times, and their parts",
    "average": "Averages of scores",
    "break-even": "Break-evens",
    "roofline": "Times, against the peak of the GPU",
}
"""Each kind of check, in words."""
_PLAIN = {
    "ratio": "{name} of {printed}; the figures that it should follow from make {again}.",
    "duplicates": "{name} of one setting has {count} values: {printed}.",
    "work": "Work of {printed}; the stated setting costs {again}.",
    "gamma": "FLOPs of {printed} need γ = {again} in the paper's formula.",
    "cache": "{name} of {printed} holds {again}, text included.",
    "cache not_comparable": "{name} of {printed} holds {again}, text included: fewer than the picture's visual tokens.",
    "retention": "Retention of {printed}; of the tokens that came in, it is {again}.",
    "schedule": "{name} of {printed}; the schedule makes {again}.",
    "sum": "{name} of {printed}; its parts make {again}.",
    "samples": "{name} of {printed}; by its parts, that is of {again} at the most.",
    "after_prefill": "After the prefill, more kept tokens take less time: {printed}.",
    "average": "{name} of {printed}; its scores make {again}.",
    "break-even": "Break-even {printed}; the printed times cross at {again}.",
    "roofline": "{name} of {printed}; the GPU needs {again} at the least.",
}
"""A finding in plain words, by its kind of check or its quantity."""
_NARROW = 0.02
"""An interval that is narrower than this share of its value is left out of plain words."""
_WORDS = {
    "flops": "FLOPs",
    "macs": "MACs",
    "kv": "KV cache",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "proxy_loss": "proxy loss",
}
"""Names of quantities that are not their own words."""


def report(document: AuditDocument) -> Report:
    """The report of an audit."""
    counts = ((document.figures, "printed figure"), (len(document.claims), "finding"))
    facts = [document.source or "", *(units.number_of(count, noun) for count, noun in counts)]
    arithmetic: tuple[tuple[str, str, tuple[Verdict, ...]], ...] = (
        ("doubts", "Figures that contradict each other", INCONSISTENT),
        ("open", "What the figures leave open", ("underdetermined",)),
        ("supported", "What holds", ("supported",)),
    )
    pages = [_verdict_page(document), *(_arithmetic_page(document, *page) for page in arithmetic), _places(document)]
    return Report(
        subject="Audit",
        model=document.paper,
        facts=[fact for fact in facts if fact],
        pages=[page for page in pages if page.blocks],
        data=document.model_dump_json(exclude={"report"}),
        preposition="of",
    )


def _verdict_page(document: AuditDocument) -> Page:
    """What does not hold, what is open and how much holds, in plain words."""
    blocks: list[Block] = [Sentences("", [verdict(document), summary(document)])]
    for caption, verdicts in (("What does not hold", INCONSISTENT), ("What is open", ("underdetermined",))):
        several = len(verdicts) > 1
        findings = [finding for finding in by_verdict(document.claims) if finding.verdict in verdicts]
        if findings:
            columns = ("finding", *(("verdict",) if several else ()), "printed in")
            rows = [_plain_row(finding, document, with_verdict=several) for finding in findings]
            blocks.append(Table(caption, columns, rows, prose=True))
    kinds = [name for name in _CHECKS if any(finding.check == name for finding in document.claims)]
    if kinds:
        columns = ("what was checked", "holds", "does not hold", "open")
        rows = [_tally_row(name, [one for one in document.claims if one.check == name]) for name in kinds]
        blocks.append(Table("What was checked", columns, rows, compact=True))
    how = "An audit is arithmetic on what is printed: it measures nothing. The arithmetic of each finding stands below."
    return Page("verdict", "What holds and what does not", how, blocks)


def _plain_row(finding: Finding, document: AuditDocument, *, with_verdict: bool) -> list[Entry]:
    """A finding in plain words, and the paper's names of its tables. The row's label comes last."""
    places = finding.where.split("; ")
    names = list(dict.fromkeys(_table(place, document) for place in places))
    names = [*names[:2], units.number_of(len(names) - 2, "other place")] if len(names) > 2 else names
    row = places[0].partition(", ")[2] if len(places) == 1 else ""
    tone, meaning = _TONES.get(finding.verdict, "loss"), _MEANINGS[finding.verdict]
    verdicts = [Entry(words(finding.verdict), tone=tone, title=meaning)] if with_verdict else []
    where = Entry(listed(names), note=row, title=finding.where)
    return [Entry(plain(finding), note=_measured(finding, document)), *verdicts, where]


def _table(place: str, document: AuditDocument) -> str:
    """The paper's name of the table of a place."""
    names = [name for name in document.sources if place.startswith(f"{name}, ")]
    return document.sources[max(names, key=len)].removeprefix("Table: ") if names else place.partition(", ")[0]


def _tally_row(name: str, findings: Sequence[Finding]) -> list[Entry]:
    """How many findings of a kind of check hold, do not hold, or are open."""
    holds, is_open = (sum(one.verdict == verdict for one in findings) for verdict in ("supported", "underdetermined"))
    counts = (holds, len(findings) - holds - is_open, is_open)
    return [Entry(_CHECKS[name]), *(Entry(units.exact(count) if count else "–", order=count) for count in counts)]


def _arithmetic_page(document: AuditDocument, id: str, title: str, verdicts: Sequence[Verdict]) -> Page:
    """The arithmetic of all findings with one of these verdicts, a table for each verdict that occurs."""
    tables: list[Block] = []
    for verdict in verdicts:
        rows = [_row(finding, document) for finding in document.claims if finding.verdict == verdict]
        if rows:
            columns = ("printed → recomputed", "why")
            tables.append(Table(words(verdict).capitalize(), columns, rows, prose=True, detail=True))
    meanings = " ".join(
        f"{words(verdict).capitalize()}: {_MEANINGS[verdict]}" for verdict in verdicts if verdict in document.tally
    )
    return Page(id, title, meanings, tables, folded="The arithmetic of each finding")


def _row(finding: Finding, document: AuditDocument) -> list[Entry]:
    """A finding: the figure, where it is printed and by which convention, and the arithmetic."""
    figure, again = f"{finding.quantity} {finding.printed}", recomputed(finding)
    place = f"{finding.where} ({finding.convention})" if finding.convention else finding.where
    return [Entry(f"{figure} → {again}" if again else figure, note=place), Entry(why(finding, document))]


def _places(document: AuditDocument) -> Page:
    """Where tables stand in the paper, and the rows that nothing tests."""
    blocks: list[Block] = []
    if document.sources:
        blocks.append(Terms("Tables", list(document.sources.items()), detail=True))
    if document.alone:
        blocks.append(Sentences("Rows that no other figure tests", list(document.alone), detail=True))
    how = "The claims file gives each table a name."
    return Page("places", "Where the figures stand", how, blocks, folded="Names of tables, and rows without a finding")


def verdict(document: AuditDocument) -> str:
    """How many of the findings hold, in one plain sentence."""
    holds, is_open = (document.tally.get(verdict, 0) for verdict in ("supported", "underdetermined"))
    wrong = len(document.claims) - holds - is_open
    if not document.claims:
        return "No printed figure tests another one."
    parts = [f"{holds} of {units.number_of(len(document.claims), 'finding')} hold"]
    parts += [f"{wrong} contradict{'s' if wrong == 1 else ''} other figures of the paper"] if wrong else []
    parts += [f"{is_open} cannot be decided from what is printed"] if is_open else []
    return f"{'The printed figures agree' if not wrong else 'Not all printed figures agree'}: {listed(parts)}."


def summary(document: AuditDocument) -> str:
    """How many findings have which verdict, and how many rows stay untested."""
    counts = ", ".join(f"{count} {words(verdict)}" for verdict, count in document.tally.items())
    figures = units.number_of(document.figures, "printed figure")
    findings = units.number_of(len(document.claims), "finding")
    alone = f" No other figure tests {units.number_of(len(document.alone), 'row')}." if document.alone else ""
    return f"{figures}, {findings}{f': {counts}' if counts else ''}.{alone}"


def plain(finding: Finding) -> str:
    """A finding in plain words."""
    name, unit = _name(finding.quantity)
    prints = finding.printed.split(" / ")
    printed = f"{listed(prints)} {unit}".strip().replace(" ×", "×")
    if finding.quantity == "retention":
        printed = units.percent(float(finding.printed))
    if finding.recomputed is None:
        return f"{name} of {printed}; nothing else that is printed decides it."
    low, high = finding.interval or (0, 0)
    narrow = high - low < _NARROW * abs(finding.recomputed)
    again = recomputed(finding.model_copy(update={"interval": None}) if narrow else finding, _brief)
    if finding.unit == "share":
        again = units.percent_within(finding.recomputed, finding.interval or (finding.recomputed,) * 2)
    if finding.quantity == "gamma" and len(prints) > 1:
        return f"No one γ explains the FLOPs of {printed}."
    keys = (finding.unit, finding.quantity, f"{finding.check} {finding.verdict}", finding.check)
    template = next(_PLAIN[key] for key in keys if key in _PLAIN)
    return template.format(name=name, printed=printed, again=again, count=len(prints))


def _brief(value: float) -> str:
    return units.short(value) if abs(value) < 1000 else units.plain(round(value))


def _name(name: str) -> tuple[str, str]:
    """The name of a quantity as a sentence begins with it, and the unit of its print."""
    try:
        meant = quantity(name)
    except ValueError:
        return ("Average", "tokens") if name == "tokens" else (name.capitalize(), "")
    text = _WORDS.get(meant.base, meant.base)
    if meant.form == "plain":
        return text.removesuffix("_pct").replace("_", " ").capitalize(), meant.unit
    timed = meant.unit in ("s", "ms", "min", "h")
    suffix = {"ratio": " ratio", "reduction": " saving", "share": " of dense"}.get(meant.form, " time" if timed else "")
    suffix = " speed-up" if name.endswith("_speedup") else suffix
    return f"{text[:1].upper()}{text[1:]}{suffix}", meant.unit


def by_verdict(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order in which they are shown: contradictions first, each verdict in the order of the checks."""
    return sorted(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def recomputed(finding: Finding, number: Callable[[float], str] = units.plain) -> str:
    """The recomputed value with its unit, and the interval that rounding allows. number: writes a number."""
    if finding.recomputed is None:
        return ""
    unit = {"share": "", "×": "×"}.get(finding.unit, f" {finding.unit}")
    text = f"{number(finding.recomputed)}{unit}".rstrip()
    if finding.interval is None or finding.interval[0] == finding.interval[1]:
        return text
    return f"{text} [{number(finding.interval[0])}, {number(finding.interval[1])}]"


def why(finding: Finding, document: AuditDocument) -> str:
    """The arithmetic, and after it what our own study measured."""
    return f"{finding.why} {_measured(finding, document)}".strip()


def words(verdict: Verdict) -> str:
    """A verdict in words."""
    return verdict.replace("_", " ")


def _measured(finding: Finding, document: AuditDocument) -> str:
    """What our own study measured of the same setting; empty without a study."""
    if finding.measured is None or document.environment is None or document.study is None:
        return ""
    where = f"on {document.environment.device_name} ({document.study.model}, {document.study.dtype})"
    return f"Our study {where} {_saw(finding, finding.measured)}."


def _saw(finding: Finding, seen: Measured) -> str:
    if finding.check == "break-even":
        return f"breaks even in total time at {units.percent_within(seen.value, seen.ci95)}"
    at = units.percent(seen.retention)
    if seen.samples is None:
        return f"counted {units.times(seen.value)} at {at}"
    return f"saw {units.times_within(seen.value, seen.ci95)} at {at} in {seen.samples} pairs"
