"""What pruning does to the answers of a sweep, where the right answers are known."""

from collections.abc import Iterator

from trio_profile import units
from trio_profile.analysis.accuracy import AccuracyKept
from trio_profile.analysis.sweep import CellSummary, SweepDocument
from trio_profile.findings import sweep_charts
from trio_profile.findings.blocks import Block, Entry, Page, Sentences, Table
from trio_profile.findings.cells import any_finished, planned
from trio_profile.findings.charts import colour_of
from trio_profile.findings.table import Grid, grid_of, table
from trio_profile.quantities.closeness import DIVERGENCE
from trio_profile.quantities.right_answers import of_kind
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
    cells = grid_of(document, planned(document))
    blocks: list[Block] = [Sentences("", _NOTHING, detail=True)]
    if cells.answered and any_finished(document):
        blocks = [sweep_charts.accuracy(document), _kept_table(document), _answers_table(cells)]
    elif any(cell.kl_nats is not None for cell in document.cells):
        closeness = table(cells, "Closeness to dense", ["changed tokens", *DIVERGENCE], detail=True)
        blocks = [Sentences("", _NO_ANSWERS, detail=True), closeness]
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


def sentences(document: SweepDocument, cell: CellSummary) -> Iterator[str]:
    """How many questions one cell answers right, beside dense."""
    dense = document.dense
    if dense is None or dense.accuracy is None or cell.accuracy is None or cell.accuracy_difference is None:
        return
    less = cell.accuracy_difference
    yield (
        f"{cell.method} at {units.percent(cell.realised)} answers "
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


def _answers_table(cells: Grid) -> Table:
    kinds = [of_kind(kind) for kind in cells.dense.accuracy_by_kind] if cells.dense else []
    columns = ["right", "points lost", "changed answers", "changed tokens", *DIVERGENCE, *kinds]
    return table(cells, "Answers by retention", columns, in_sight="mean KL, nats", with_dense=True, detail=True)
