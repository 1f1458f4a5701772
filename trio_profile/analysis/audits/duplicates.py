"""One setting printed more than once: do the prints agree?"""

from collections.abc import Iterator

from trio_profile.analysis.audits.facts import Facts
from trio_profile.analysis.audits.findings import Finding, listed, place
from trio_profile.analysis.claims import Row, Table
from trio_profile.analysis.printed import Printed
from trio_profile.analysis.quantities import quantity

Place = tuple[Table, Row]


def check(facts: Facts) -> Iterator[Finding]:
    """Every amount and score of a setting that stands in two tables or more."""
    groups: dict[str, list[list[Place]]] = {}
    for table, row in facts.claims.rows():
        for name in row.figures:
            if quantity(name).form == "amount" or name in ("accuracy_kept_pct", "score"):
                found = groups.setdefault(name, [])
                group = next((g for g in found if all(facts.same_setting((table, row), at) for at in g)), None)
                found.append([(table, row)]) if group is None else group.append((table, row))
    for name, found in groups.items():
        for group in found:
            if len({table.name for table, _ in group}) > 1:
                yield _finding(name, group)


def _finding(name: str, group: list[Place]) -> Finding:
    by_print: dict[str, list[str]] = {}
    for table, row in group:
        by_print.setdefault(row.figures[name], []).append(place(table, row))
    prints = [Printed.of(text) for text in by_print]
    agree = all(a.agrees(b) for a in prints for b in prints)
    lists = listed(f"{text} in {listed(at)}" for text, at in by_print.items())
    spread = max(p.value for p in prints) / min(p.value for p in prints)
    if agree:
        why = f"One figure for one setting: {lists}." if len(prints) == 1 else f"They are one figure, rounded: {lists}."
    else:
        why = (
            f"One setting has {len(prints)} figures: {lists}. The largest is {100 * float(spread - 1):.2g} % above the "
            "least, which no rounding explains: they are not of one run, or not of one setting, and what is derived from "
            "one does not hold for the other."
        )
    return Finding(
        check="duplicates",
        where="; ".join(place(table, row) for table, row in group),
        quantity=name,
        printed=" / ".join(by_print),
        recomputed=float(spread),
        unit="largest / least",
        verdict="supported" if agree else "not_comparable",
        why=why,
    )
