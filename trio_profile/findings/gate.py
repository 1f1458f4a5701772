"""The report of the gate: what became worse, what did not, and what must be known to believe it."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trio_profile import units
from trio_profile.analysis.gate import Command, GateDocument, Outcome, Verdict
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table
from trio_profile.quantities.entries import Tone

_ORDER: tuple[Outcome, ...] = ("regression", "inconclusive", "improved", "pass", "no base")
_TONES: dict[Outcome, Tone] = {"regression": "loss", "improved": "gain", "no base": "absent"}
_WORDS: dict[Outcome, str] = {
    "inconclusive": "inconclusive",
    "improved": "improved",
    "pass": "passed",
    "no base": "without a base",
}
_COLUMNS = ("verdict", "quantity", "where", "new / base")


def report(document: GateDocument) -> Report:
    """The report of the gate."""
    machine: dict[str, Any] = document.environment
    device = machine.get("device_name") or machine.get("machine")
    return Report(
        subject="trio-profile gate",
        model="a pytest-benchmark file" if document.study is None else str(document.study["model"]),
        facts=[str(device)] if device else [],
        pages=[verdicts_page(document)],
        data=document.model_dump_json(),
    )


def verdicts_page(document: GateDocument) -> Page:
    """The tally, every regression as a sentence, the verdicts that somebody may want to read, and notes."""
    verdicts = document.verdicts
    blocks: list[Block] = [Sentences("", [tally(verdicts)])]
    if worse := [verdict for verdict in verdicts if verdict.verdict == "regression"]:
        blocks.append(Sentences("REGRESSION", [_worse(verdict) for verdict in worse], tone="doubt"))
    if shown := _shown(verdicts):
        blocks.append(Table("Worst first", _COLUMNS, [_row(verdict) for verdict in shown], keys=3, prose=True))
    if notes := dict.fromkeys(f"{verdict.quantity}: {verdict.note}" for verdict in verdicts if verdict.note):
        blocks.append(Sentences("Notes", list(notes)))
    if document.commands:
        blocks.append(
            Sentences(
                "To decide what is inconclusive, measure longer",
                [_command(command) for command in document.commands],
            )
        )
    return Page(
        "verdicts",
        "What changed",
        "new / base above 1 is worse. A whole number regresses if it grows at all. A time regresses if its ratio lies "
        "above the bound with 99 % confidence. Inconclusive means that the interval contains the bound: it does not "
        "fail, and it does not pass either. Whole numbers that did not change are left out of the table.",
        blocks,
    )


def _command(command: Command) -> str:
    """The command line, after the side and the code with which it must run."""
    code = " and ".join(_code(code) for code in command.code if code)
    return f"{command.side}{f', with the code of {code}' if code else ''}: {command.command}"


def _code(code: str) -> str:
    """A commit or a version. If the commit had changes, their digest follows."""
    changed = re.fullmatch(r"([0-9a-f]+)\+([0-9a-f]{8})", code)
    return code if changed is None else f"{changed[1]} with uncommitted changes ({changed[2]})"


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many quantities got which verdict."""
    found = Counter(verdict.verdict for verdict in verdicts)
    unmoved = sum(verdict.ci95 is None and verdict.verdict == "pass" for verdict in verdicts)
    counts = [f"{found[outcome]} {words}" for outcome, words in _WORDS.items() if found[outcome]]
    if found["regression"]:
        counts.insert(0, units.number_of(found["regression"], "regression"))
    total = f"{len(verdicts)} {'quantity' if len(verdicts) == 1 else 'quantities'}"
    return f"{total}: {', '.join(counts)}. {units.number_of(unmoved, 'whole number')} did not change."


def _shown(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """All verdicts but those of whole numbers that did not change, worst first."""
    shown = [verdict for verdict in verdicts if verdict.ci95 is not None or verdict.verdict != "pass"]
    return sorted(shown, key=lambda verdict: _ORDER.index(verdict.verdict))


def _worse(verdict: Verdict) -> str:
    ratio = _ratio(verdict)
    return f"{verdict.quantity} of {verdict.where}: {_values(verdict)}{f', {ratio}' if ratio else ''}."


def _row(verdict: Verdict) -> list[Entry]:
    """The verdict with its ratio; of a whole number, with its change."""
    ratio, values = _ratio(verdict), _values(verdict)
    return [
        Entry(verdict.verdict, tone=_TONES.get(verdict.verdict, "")),
        Entry(verdict.quantity),
        Entry(verdict.where),
        Entry(ratio, note=f"({values})") if ratio else Entry(values),
    ]


def _values(verdict: Verdict) -> str:
    """Both values; of whole numbers the base and the change."""
    base, new = verdict.base, verdict.new
    if base is None:
        return _value(verdict.quantity, new)
    if isinstance(base, int) and isinstance(new, int):
        return units.change(base, new)
    return f"{_value(verdict.quantity, base)} → {_value(verdict.quantity, new)}"


def _value(quantity: str, value: int | float) -> str:
    if isinstance(value, int):
        return units.exact(value)
    return units.milliseconds(value) if quantity.endswith("_ms") else units.factor(value)


def _ratio(verdict: Verdict) -> str:
    """The ratio with its interval; nothing for a whole number, whose change says more."""
    if verdict.ratio is None or verdict.ci95 is None:
        return ""
    return units.times_within(verdict.ratio, verdict.ci95)
