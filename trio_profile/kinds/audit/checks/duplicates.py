"""Check whether figures agree that are printed more than once for one setting."""

from collections.abc import Iterator

from trio_profile.cost.printed import Printed
from trio_profile.inputs.claims.claims import quantity
from trio_profile.inputs.claims.facts import Facts, Line
from trio_profile.kinds.audit.checks import dense_work
from trio_profile.kinds.audit.document import Finding, Subject, Verdict
from trio_profile.text import listed


def check(facts: Facts) -> Iterator[Finding]:
    """Compare every amount and score of a setting that stands in several tables."""
    settings: dict[str, list[list[Line]]] = {}
    # Settings with the most digits come first. A setting with so few digits that it may be two others is skipped.
    for line in sorted(facts.lines, key=lambda line: len(line.row.tokens or line.row.retention or ""), reverse=True):
        for name in line.row.figures:
            if quantity(name).form == "amount" or name in ("accuracy_kept_pct", "score"):
                groups = settings.setdefault(name, [])
                fitting = [group for group in groups if all(facts.same_setting(line, other) for other in group)]
                groups.append([line]) if len(fitting) != 1 else fitting[0].append(line)
    for name, groups in settings.items():
        for group in groups:
            if len({line.label for line in group}) > 1:
                yield _finding(name, sorted(group, key=facts.lines.index))


def _finding(name: str, group: list[Line]) -> Finding:
    by_print: dict[str, list[str]] = {}
    for line in group:
        by_print.setdefault(line.row.figures[name], []).append(line.place)
    prints = [Printed.of(text) for text in by_print]
    lists = listed([f"{text} in {listed(places)}" for text, places in by_print.items()])
    spread = max(p.value for p in prints) / min(p.value for p in prints)
    verdict: Verdict = "supported"
    if len(prints) == 1:
        why = f"One figure for one setting: {lists}."
    elif all(a.allowed.meets(b.allowed) for a in prints for b in prints):
        why = f"They can be one figure, rounded and cut off: {lists}."
    else:
        verdict = "not_comparable"
        above = f"{100 * float(spread - 1):.3g} % above the least, which no rounding explains"
        why = f"One setting has {len(prints)} figures: {lists}. The largest is {above}."
    counts = _counted(name, group) if verdict == "not_comparable" else {}
    convention = None
    if len({code for code, _ in counts.values()}) > 1:
        convention = " / ".join(code for code, _ in counts.values())
        counted = "; ".join(f"{text} by {code}{more}" for text, (code, more) in counts.items())
        why += f" They are counted differently: {counted}."
    where = "; ".join(line.place for line in group)
    subject = Subject("duplicates", where, name, " / ".join(by_print), "largest / least", convention)
    return subject.finding(verdict, why, spread if len(prints) > 1 else None)


def _counted(name: str, group: list[Line]) -> dict[str, tuple[str, str]]:
    """How each figure of one dense prefill's work is counted, by its print; empty for figures of anything else."""
    base = quantity(name).base
    if base not in ("flops", "macs"):
        return {}
    figures = {line.row.figures[name]: (line, line.figure(base)) for line in group if line.row.dense}
    return {text: dense_work.described(line, figure) for text, (line, figure) in figures.items() if figure is not None}
