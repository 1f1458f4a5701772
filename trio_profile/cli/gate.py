"""`trio-profile gate`: has anything become worse between two studies, or two pytest-benchmark files?"""

import json as jsonlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli.options import Json, print_document

if TYPE_CHECKING:
    from trio_profile.gate.evidence import Subject
    from trio_profile.gate.verdict import Verdict

_COLUMNS = ("verdict", "quantity", "where", "base", "new", "new / base")


def command(
    base: Annotated[
        Path, typer.Argument(help="What it is held against: a study's directory, or a pytest-benchmark JSON.")
    ],
    new: Annotated[Path, typer.Argument(help="What is judged: another of the same kind.")],
    max_ratio: Annotated[float, typer.Option(help="The largest new / base of a timed quantity that passes.")] = 1.03,
    quantity: Annotated[list[str] | None, typer.Option(help="Judge this quantity alone; may be repeated.")] = None,
    allow_other_environment: Annotated[
        bool, typer.Option("--allow-other-environment", help="Compare what was measured on unlike machines.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for a pull request.")] = False,
    json: Json = False,
) -> None:
    """Judge every quantity of BASE in NEW; exit with 1 on a regression, with 2 where no verdict can be had."""
    from trio_profile.cli import tables
    from trio_profile.gate.evidence import compare
    from trio_profile.gate.verdict import failures

    before, after = _read(base), _read(new)
    verdicts = compare(
        before,
        after,
        max_ratio=max_ratio,
        quantities=tuple(quantity or ()),
        other_environment=allow_other_environment,
    )
    tables.warn([f"{where} failed in {base} and is not compared" for where in before.failed])
    if json:
        print_document(_document(after, verdicts))
    elif markdown:
        print_document(_markdown(verdicts))
    else:
        _print(verdicts)
    if failures(verdicts):
        raise typer.Exit(1)


def _read(path: Path) -> "Subject":
    """A study or a pytest-benchmark file. Raises StoreError for neither."""
    from trio_profile.errors import StoreError
    from trio_profile.gate.evidence import of_benchmarks, of_study
    from trio_profile.records.store import MEASUREMENTS, Store

    if path.name == MEASUREMENTS:
        path = path.parent
    if path.is_dir():
        return of_study(Store(path).read(), str(path))
    try:
        return of_benchmarks(path.read_bytes(), str(path))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}; name a study's directory or a pytest-benchmark JSON"
        ) from error


def _document(after: "Subject", verdicts: Sequence["Verdict"]) -> str:
    from trio_profile.records.schema import FORMAT, VERSION

    document = {
        "format": FORMAT,
        "version": VERSION,
        "environment": after.environment,
        "study": after.study,
        "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts],
    }
    return jsonlib.dumps(document, indent=2, allow_nan=False)


def _print(verdicts: Sequence["Verdict"]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for verdict in _shown(verdicts):
        table.add_row(*(escape(text) for text in _row(verdict)))
    if table.row_count:
        console.print(table, "")
    for line in (_tally(verdicts), *_notes(verdicts)):
        console.print(escape(line), soft_wrap=True)


def _markdown(verdicts: Sequence["Verdict"]) -> str:
    """What a pull request shows: a sentence, and the rows that somebody may want to read."""
    lines = [f"**trio-profile gate:** {_tally(verdicts)}"]
    if shown := _shown(verdicts):
        lines += ["", f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * 3}{'--:|' * 3}"]
        for verdict in shown:
            cells = [text.replace("|", r"\|") for text in _row(verdict)]
            if verdict.verdict == "regression":
                cells[0] = f"**{cells[0]}**"
            lines.append(f"| {' | '.join(cells)} |")
    if notes := _notes(verdicts):
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines)


def _shown(verdicts: Sequence["Verdict"]) -> list["Verdict"]:
    """All but exact quantities that did not move, worst first."""
    order = ("regression", "inconclusive", "improved", "pass", "no base")
    shown = [verdict for verdict in verdicts if verdict.ci95 is not None or verdict.verdict != "pass"]
    return sorted(shown, key=lambda verdict: order.index(verdict.verdict))


def _tally(verdicts: Sequence["Verdict"]) -> str:
    found = Counter(verdict.verdict for verdict in verdicts)
    unmoved = sum(verdict.ci95 is None and verdict.verdict == "pass" for verdict in verdicts)
    parts = [
        f"{found[outcome]} {outcome}"
        for outcome in ("regression", "inconclusive", "improved", "pass")
        if found[outcome]
    ]
    return f"{', '.join(parts)} of {len(verdicts)} quantities; {unmoved} exact ones did not move"


def _notes(verdicts: Sequence["Verdict"]) -> list[str]:
    return list(dict.fromkeys(f"{verdict.quantity}: {verdict.note}" for verdict in verdicts if verdict.note))


def _row(verdict: "Verdict") -> tuple[str, ...]:
    from trio_profile import units

    def text(value: int | float | None) -> str:
        if value is None:
            return ""
        if isinstance(value, int):
            return units.exact(value)
        return units.milliseconds(value) if verdict.quantity.endswith("_ms") else units.factor(value)

    ratio = "" if verdict.ratio is None else units.times(verdict.ratio)
    if verdict.ratio is not None and verdict.ci95 is not None:
        ratio = units.times_within(verdict.ratio, verdict.ci95)
    return verdict.verdict, verdict.quantity, verdict.where, text(verdict.base), text(verdict.new), ratio
