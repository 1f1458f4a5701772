"""The page of `ablate --tasks`: each variant of the method beside the unchanged method, on the user's tasks."""

from collections.abc import Mapping, Sequence

from trio_profile import units
from trio_profile.analysis.ablate import PRINTED
from trio_profile.analysis.evaluation import BenchmarkScore, EvaluatedCell, Evaluation
from trio_profile.findings.blocks import Block, Entry, Page, Sentences, Table
from trio_profile.quantities import entries
from trio_profile.records.study import Options

Variants = Sequence[tuple[str, EvaluatedCell]]
"""The rows of one group at one retention, with the names of the variants."""


def ablation_page(document: Evaluation) -> Page:
    """One table for each group and retention. The page is empty for an evaluation without variants."""
    blocks: list[Block] = []
    for group, options in document.study.ablations.items():
        for retention in sorted(set(document.study.retentions)):
            rows = _rows(document, options, retention)
            if rows:
                where = f"{group} at {units.percent(retention)}"
                blocks += [Sentences(where, _sentences(rows)), _table(document, group, rows)]
                blocks.append(_differences(group, rows))
    return Page(
        "ablations",
        "Variants beside the default",
        "Each variant changes one option of the method. “average” is the mean share of the dense scores. “of default” "
        "is the mean of the variant's score over the default's score, with its 95 % interval. All rows answer the same "
        "questions, so it is paired. Expect that one of twenty variants that change nothing shows a difference.",
        blocks,
    )


def _rows(document: Evaluation, options: Mapping[str, Options], retention: float) -> Variants:
    """Return the variants that ran, in the study's order."""
    found = [
        (name, row)
        for name, changed in options.items()
        for row in document.cells
        if row.cell is not None and row.cell.retention == retention and row.cell.options == changed
    ]
    return found if len(found) > 1 else []


def _sentences(rows: Variants) -> list[str]:
    """What the intervals say of the variants."""
    below = [name for name, row in rows if (ci95 := _interval(row)) is not None and ci95[1] < 1]
    above = [name for name, row in rows if (ci95 := _interval(row)) is not None and ci95[0] > 1]
    alike = [name for name, row in rows if (ci95 := _interval(row)) is not None and ci95[0] <= 1 <= ci95[1]]
    unknown = [name for name, row in rows if row.beside_default is not None and _interval(row) is None]
    said = (
        ("Worse than the default", below),
        ("Better than the default", above),
        ("No measurable difference from the default", alike),
        ("The difference from the default has no interval", unknown),
    )
    return [f"{text}: {'; '.join(names)}." for text, names in said if names]


def _interval(row: EvaluatedCell) -> tuple[float, float] | None:
    return None if row.beside_default is None else row.beside_default.average_ci95


def _table(document: Evaluation, group: str, rows: Variants) -> Table:
    """A row for each variant: its scores, the average, and what it keeps of the default."""
    printed = PRINTED.get(group, {})
    paper = any(name in printed for name, _ in rows)
    heads = [column.name for column in document.benchmarks]
    columns = [group, *heads, "average", "of default", "prefill", *(["paper"] if paper else [])]
    table = [
        [
            Entry(name, note="" if row.beside_default else "default"),
            *(_score(row.benchmarks, head) for head in heads),
            entries.NOTHING if row.average is None else Entry(units.percent(row.average), order=row.average),
            _of_default(row),
            entries.short_speedup(row.prefill_speedup),
            *([Entry(units.score(printed[name])) if name in printed else entries.NOTHING] if paper else []),
        ]
        for name, row in rows
    ]
    what = "its POPE score" if group == "layers" else "its average, in per cent of dense"
    caption = f". The paper's column is for LLaVA-1.5-7B at 64 tokens: {what}" if paper else ""
    return Table(f"Scores{caption}", columns, table)


def _differences(group: str, rows: Variants) -> Table:
    """The difference of each variant to the default, in every benchmark."""
    table = [
        [Entry(name), Entry(score.benchmark), _difference(score)]
        for name, row in rows
        if row.beside_default is not None
        for score in row.beside_default.benchmarks
    ]
    return Table("Score minus the default's score", (group, "benchmark", "difference"), table, keys=2, detail=True)


def _score(scores: Sequence[BenchmarkScore], head: str) -> Entry:
    found = next((score for score in scores if score.benchmark == head), None)
    return entries.NOTHING if found is None else Entry(units.task_score(found.value), order=found.value)


def _of_default(row: EvaluatedCell) -> Entry:
    """What a variant keeps of the default's scores."""
    found = row.beside_default
    if found is None or found.average is None:
        return entries.NOTHING
    if found.average_ci95 is None:
        return Entry(units.percent(found.average), order=found.average)
    text = units.percent_within(found.average, found.average_ci95)
    return Entry(text, tone=entries.tone(found.average_ci95, 1), order=found.average)


def _difference(score: BenchmarkScore) -> Entry:
    if score.difference is None:
        return entries.NOTHING
    tone = "" if score.ci95 is None else entries.tone(score.ci95, 0)
    text = units.task_score_difference(score.difference, score.value, score.ci95)
    return Entry(text, tone=tone, order=score.difference)
