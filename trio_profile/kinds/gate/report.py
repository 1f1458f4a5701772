"""The report of the gate: what became worse, what did not, and what must be known to believe it."""

from trio_profile import units
from trio_profile.kinds.gate.document import GateDocument, OfInconclusive, Outcome, Verdict, effect
from trio_profile.quantities.entries import Tone
from trio_profile.report.blocks import Block, Entry, Page, Report, Sentences, Table

_WORST_FIRST: tuple[Outcome, ...] = ("regression", "inconclusive", "improved", "pass")
"""No verdict here is "no base": both sides have a value."""
_TONES: dict[Outcome, Tone] = {"regression": "loss", "improved": "gain"}
_COLUMNS = ("verdict", "quantity", "where", "new / base")


def report(document: GateDocument) -> Report:
    """The report of the gate."""
    machine = document.environment
    device = machine.get("device_name") or machine.get("machine")
    return Report(
        subject="trio-profile gate",
        model="a pytest-benchmark file" if document.study is None else document.study.model,
        facts=[str(device)] if device else [],
        pages=[verdicts_page(document)],
        data=document.model_dump_json(),
        conclusion=document.conclusion,
    )


def verdicts_page(document: GateDocument) -> Page:
    """The verdicts that somebody may want to read, worst first, and notes."""
    verdicts = document.verdicts
    unmoved = sum(verdict.ci95 is None and verdict.verdict == "pass" for verdict in verdicts)
    same = [f"{units.number_of(unmoved, 'whole number')} did not change."] if unmoved else []
    blocks: list[Block] = [Sentences("", same)]
    if moved := [verdict for verdict in verdicts if verdict.ci95 is not None or verdict.verdict != "pass"]:
        moved.sort(key=lambda verdict: _WORST_FIRST.index(verdict.verdict))
        rows = [_row(verdict, document.inconclusive) for verdict in moved]
        blocks.append(Table("Worst first", _COLUMNS, rows, keys=3, prose=True))
    if notes := dict.fromkeys(f"{verdict.quantity}: {verdict.note}" for verdict in verdicts if verdict.note):
        blocks.append(Sentences("Notes", list(notes)))
    return Page(
        "verdicts",
        "What changed",
        "new / base above 1 is worse. A whole number regresses if it grows at all. A time regresses if its whole 95 % "
        "interval lies above the bound. Inconclusive means that the bound lies inside the interval. Whole numbers that "
        "did not change are left out of the table.",
        blocks,
    )


def _row(verdict: Verdict, inconclusive: OfInconclusive) -> list[Entry]:
    """The verdict with its ratio and the bound; of a whole number, with its change."""
    values, change = _values(verdict), Entry(_values(verdict))
    if verdict.ratio is not None and verdict.ci95 is not None and verdict.max_ratio is not None:
        ratio = units.times_within(verdict.ratio, verdict.ci95, verdict.max_ratio)
        does = effect(verdict, inconclusive, "--inconclusive")
        change = Entry(f"{ratio}, bound {verdict.max_ratio:g}", note="; ".join(filter(None, (f"({values})", does))))
    return [
        Entry(verdict.verdict, tone=_TONES.get(verdict.verdict, "")),
        Entry(verdict.quantity),
        Entry(verdict.where),
        change,
    ]


def _values(verdict: Verdict) -> str:
    """Both values; of whole numbers the base and the change."""
    base, new = verdict.base or 0, verdict.new
    if isinstance(base, int) and isinstance(new, int):
        return units.change(base, new)
    text = units.milliseconds if verdict.quantity.endswith("_ms") else units.factor
    return f"{text(base)} → {text(new)}"
