"""Check whether figures agree that are printed more than once for one setting."""

from collections.abc import Iterator

from trio_profile.judge.audit.claims import Row, Table
from trio_profile.judge.audit.facts import Facts
from trio_profile.judge.audit.finding import Finding, Subject, Verdict, listed, place
from trio_profile.judge.audit.printed import Printed
from trio_profile.judge.audit.quantities import quantity

Place = tuple[Table, Row]


def check(facts: Facts) -> Iterator[Finding]:
    """Compare every amount and score of a setting that stands in several tables."""
    groups: dict[str, list[list[Place]]] = {}
    places = list(facts.claims.rows())
    # Settings with the most digits come first. A setting with so few digits that it may be two others is skipped.
    for at in sorted(places, key=_digits, reverse=True):
        for name in at[1].figures:
            if quantity(name).form == "amount" or name in ("accuracy_kept_pct", "score"):
                found = groups.setdefault(name, [])
                fitting = [group for group in found if all(facts.same_setting(at, other) for other in group)]
                found.append([at]) if len(fitting) != 1 else fitting[0].append(at)
    for name, found in groups.items():
        for group in found:
            if len({table.name for table, _ in group}) > 1:
                yield _finding(name, sorted(group, key=places.index))


def _digits(at: Place) -> int:
    """The number of digits of a row's setting."""
    return len(at[1].tokens or at[1].retention or "")


def _finding(name: str, group: list[Place]) -> Finding:
    by_print: dict[str, list[str]] = {}
    for table, row in group:
        by_print.setdefault(row.figures[name], []).append(place(table, row))
    prints = [Printed.of(text) for text in by_print]
    agree = all(a.agrees(b) for a in prints for b in prints)
    lists = listed(f"{text} in {listed(at)}" for text, at in by_print.items())
    spread = max(p.value for p in prints) / min(p.value for p in prints)
    verdict: Verdict = "supported"
    if len(prints) == 1:
        why = f"One figure for one setting: {lists}."
    elif agree:
        why = f"They can be one figure, rounded and cut off: {lists}."
    else:
        verdict = "not_comparable"
        why = (
            f"One setting has {len(prints)} figures: {lists}. The largest is {100 * float(spread - 1):.3g} % above the "
            "least, which no rounding explains: they are not of one run, or not of one setting, and what is derived "
            "from one does not hold for the other."
        )
    where = "; ".join(place(table, row) for table, row in group)
    subject = Subject("duplicates", where, name, " / ".join(by_print), "largest / least")
    return subject.finding(verdict, why, spread if len(prints) > 1 else None)
