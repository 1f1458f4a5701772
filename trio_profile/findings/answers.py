"""What pruning does to the answers of a sweep, where the right answers are known."""

from collections.abc import Iterator, Mapping, Sequence

from trio_profile import units
from trio_profile.analysis.accuracy import AccuracyKept
from trio_profile.analysis.sweep import CellSummary, DenseSummary, SweepDocument
from trio_profile.findings import doubts, entries, sweep_charts
from trio_profile.findings.blocks import Block, Entry, Page, Sentences, Table
from trio_profile.findings.cell_tables import head
from trio_profile.findings.cells import any_finished, finished_cells, planned, realised
from trio_profile.findings.charts import colour_of
from trio_profile.text import listed

_NO_ANSWERS = (
    "This page says how far the next token moves from dense, not whether answers stay right.",
    "No question with a known answer was asked. Name a file of questions with `--questions FILE`.",
)
_NOTHING = (
    "No finished cell says anything about answers.",
    "Name a file of questions with `--questions FILE`.",
)
_NOT_ENOUGH = "not enough questions to say"


def answers_page(document: SweepDocument) -> Page:
    """Right answers by retention, and the cheapest retention that keeps them; else how far the output moved."""
    dense = document.dense
    marked = doubts.marks(document.doubts, finished_cells(document))
    blocks: list[Block] = [Sentences("", _NOTHING, detail=True)]
    if dense is not None and dense.accuracy is not None and any_finished(document):
        blocks = [sweep_charts.accuracy(document), _kept_table(document), _answers_table(document, dense, marked)]
    elif any(cell.kl_nats is not None for cell in document.cells):
        blocks = [Sentences("", _NO_ANSWERS, detail=True), _closeness_table(document, marked)]
    return Page(
        "answers",
        "Answers",
        "The same questions are asked at every retention. Each one is answered by generation and compared with its "
        "known answer. The horizontal line is the dense model. Points lost are paired, question by question, so their "
        "interval is narrower than those of the two accuracies. KL says how far the next token's distribution lies "
        "from dense. A method that fails at few questions has a small median, but a large mean and 95th percentile. A "
        "method that draws at random was run with several seeds.",
        blocks,
    )


def _closeness_table(document: SweepDocument, marked: Mapping[str, str]) -> Table:
    """How far the next token lies from dense, where no answers are known."""
    columns = ("Method", "Retention", "changed next token", *entries.NATS_COLUMNS)
    rows = [
        [
            *head(document, method, asked, cell, marked),
            *(
                [entries.unmeasured(cell, 4)]
                if cell is None or cell.kl_nats is None
                else [entries.changed(cell.top1_agreement), *entries.divergence(cell)]
            ),
        ]
        for method, asked, cell in planned(document)
    ]
    return Table("Closeness to dense", columns, rows, keys=2, detail=True)


def sentences(document: SweepDocument, cell: CellSummary) -> Iterator[str]:
    """How many questions one cell answers right, beside dense."""
    dense = document.dense
    if dense is None or dense.accuracy is None or cell.accuracy is None or cell.accuracy_difference is None:
        return
    less = cell.accuracy_difference
    yield (
        f"{cell.method} at {units.percent(realised(cell))} answers "
        f"{units.percent_within(cell.accuracy.value, cell.accuracy.ci95)} of {cell.accuracy.samples} questions right, "
        f"dense {units.percent_within(dense.accuracy.value, dense.accuracy.ci95)}: "
        f"{units.points(less.value, less.ci95)}."
    )


def kept_sentences(document: SweepDocument, method: str) -> Iterator[str]:
    """The cheapest retention for each share of the dense accuracy, with the speed-up there."""
    found = document.accuracy_kept_by_method.get(method, {})
    named = [(units.percent(float(share), 0), kept) for share, kept in found.items()]
    known: dict[str, list[str]] = {}
    for share, kept in named:
        if kept.status != "inconclusive":
            known.setdefault(_kept_text(kept), []).append(share)
    if known:
        parts = [f"{listed(shares)} {where}" for where, shares in known.items()]
        yield f"Of the dense accuracy, {method} keeps {'; '.join(parts)}."
    if unknown := [share for share, kept in named if kept.status == "inconclusive"]:
        yield f"Not enough questions to say where {method} keeps {' or '.join(unknown)} of the dense accuracy."


def _kept_text(found: AccuracyKept) -> str:
    """`from a retention of 44 % [33, 55] on (prefill 1.62×)`, `at every retention measured`, `at none`."""
    if found.status == "crossing" and found.retention is not None and found.ci95 is not None:
        faster = "" if found.prefill_speedup is None else f" (prefill {units.times(found.prefill_speedup)})"
        return f"from a retention of {units.percent_within(found.retention, found.ci95)} on{faster}"
    return "at every retention measured" if found.status == "always" else "at no retention measured"


def _kept_table(document: SweepDocument) -> Table:
    known = {method: kept for method, kept in document.accuracy_kept_by_method.items() if kept}
    rows = [
        [Entry(method, colour=colour_of(document, method)), *(_kept_entry(found) for found in kept.values())]
        for method, kept in known.items()
    ]
    shares = next(iter(known.values()), {})
    columns = ("Method", *(f"{units.percent(float(share), 0)} kept" for share in shares))
    return Table("The cheapest retention that keeps a share of the dense accuracy", columns, rows, detail=True)


def _kept_entry(found: AccuracyKept) -> Entry:
    if found.status == "inconclusive":
        return Entry(_NOT_ENOUGH, tone="absent")
    if found.status != "crossing" or found.retention is None or found.ci95 is None:
        return Entry(_kept_text(found))
    text, within, bounds = units.percent_within(found.retention, found.ci95).partition(" [")
    notes = [f"[{bounds}"] if within else []
    if found.prefill_speedup is not None:
        notes.append(f"prefill {units.times(found.prefill_speedup)}")
    return Entry(text, note=", ".join(notes))


def _answers_table(document: SweepDocument, dense: DenseSummary, marked: Mapping[str, str]) -> Table:
    kinds = list(dense.accuracy_by_kind)
    columns = (
        *("Method", "Retention", "right", "points lost", "changed answers", "changed next token"),
        *(*entries.NATS_COLUMNS, *kinds),
    )
    rows = [
        [
            Entry("dense"),
            Entry(units.percent(1.0)),
            entries.short_share(dense.accuracy),
            *[entries.NOTHING] * 6,
            *(entries.short_share(dense.accuracy_by_kind[kind]) for kind in kinds),
        ]
    ]
    rows += [
        _answers_row(cell, head(document, method, asked, cell, marked), kinds)
        for method, asked, cell in planned(document)
    ]
    return Table("Answers by retention", columns, rows, keys=2, first=7, detail=True)


def _answers_row(cell: CellSummary | None, name: Sequence[Entry], kinds: Sequence[str]) -> list[Entry]:
    """A row of the answers. name: the entries that name the cell."""
    if cell is None or cell.accuracy is None or cell.kl_nats is None or cell.top1_agreement is None:
        return [*name, entries.unmeasured(cell, 7 + len(kinds))]
    return [
        *name,
        entries.short_share(cell.accuracy),
        entries.points_lost(cell.accuracy_difference),
        entries.changed(cell.answer_agreement),
        entries.changed(cell.top1_agreement),
        *entries.divergence(cell),
        *(entries.short_share(cell.accuracy_by_kind.get(kind)) for kind in kinds),
    ]
