"""The report of a comparison: methods side by side at each retention, and what could not be run."""

from trio_profile import units
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.findings import charts as figures
from trio_profile.findings import verdict
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table
from trio_profile.findings.sweep import numbers_page, of_study, study_page
from trio_profile.records.estimate import Accuracy, Difference, Measured

COLUMNS = (
    "Method",
    "realised",
    "prefill",
    "total",
    "choice",
    "MACs",
    "without choice",
    "KV bytes",
    "KL, nats",
    "same top token",
)


def report(document: Comparison) -> Report:
    """All pages of it."""
    pages = [comparison_page(document, retention) for retention in sorted(set(document.study.retentions))]
    pages += [answers_page(document)] if document.answered else []
    pages += [refusals_page(document), study_page(document), numbers_page(document)]
    return of_study(document, f"{len(document.study.methods)} methods", pages)


def comparison_page(document: Comparison, retention: float) -> Page:
    """All methods at one retention."""
    rows = document.at(retention)
    chart = Chart(
        f"front-{retention:g}",
        "Speed and nearness to dense",
        "Prefill speed-up of each method against how far its next token lies from the dense one's",
        figures.comparison(document, retention),
    )
    charts = [chart]
    if document.dense is not None and document.dense.accuracy is not None:
        label = "Prefill speed-up of each method against the share of questions that it answers right"
        charts.append(Chart(f"right-{retention:g}", "Speed and answers", label, figures.answers(document, retention)))
    blocks = [Sentences("", sentences(document, retention)), *charts, _table(document, rows)] if rows else []
    return Page(
        f"at-{retention:g}",
        f"At {units.percent(retention)}",
        "All were timed in turn with the same dense runs, in random order, in one process. To the right is faster, "
        "below is nearer to dense: nothing measured here is both faster and nearer than a filled point. On weights "
        "that were never trained nearness says what is left of the dense model's computation, and nothing of answers. "
        "Downsample is the mean of neighbouring patches; what is drawn at random was drawn with several seeds.",
        blocks,
    )


def answers_page(document: Comparison) -> Page:
    """Method by retention: how many answers are right, of which kind, and how many more than the reference's."""
    dense, retentions = document.dense, sorted(set(document.study.retentions))
    assert dense is not None and dense.accuracy is not None
    kinds = list(dense.accuracy_by_kind)
    asked = [Entry("dense"), *[_right(dense.accuracy)] * len(retentions)]
    rows = [
        [Entry(method), *(_right_apart(by_retention.get(retention)) for retention in retentions)]
        for method, by_retention in document.answered.items()
    ]
    blocks = [
        Table(f"Right, and points to {document.reference}", ("Method", *map(units.percent, retentions)), [asked, *rows])
    ]
    for retention in retentions if kinds else []:
        rows = [
            [Entry(method), *(_right(by_retention[retention].accuracy_by_kind.get(kind)) for kind in kinds)]
            for method, by_retention in document.answered.items()
            if retention in by_retention
        ]
        asked = [Entry("dense"), *(_right(dense.accuracy_by_kind[kind]) for kind in kinds)]
        blocks.append(Table(f"By kind of question, at {units.percent(retention)}", ("Method", *kinds), [asked, *rows]))
    return Page(
        "answers",
        "Answers",
        f"{dense.accuracy.samples} questions, the same for every method and retention, with 95 % intervals. A "
        f"difference to {document.reference} is paired question by question: where its interval holds 0, these "
        "questions do not tell the two apart. A method that draws at random was tried with several seeds.",
        blocks,
    )


def _right(found: Accuracy | None) -> Entry:
    return Entry("–" if found is None else units.percent_within(found.value, found.ci95))


def _right_apart(row: Row | None) -> Entry:
    if row is None or row.accuracy is None:
        return Entry("–", tone="absent")
    apart = row.reference_difference
    note = "" if apart is None else units.points_within(apart.value, apart.ci95)
    return Entry(units.percent_within(row.accuracy.value, row.accuracy.ci95), note=note, tone=_side(apart))


def refusals_page(document: Comparison) -> Page:
    """What could not be run, with the reason."""
    rows = [
        [Entry(row.method), Entry(units.percent(row.nominal_retention)), Entry(row.reason or "", tone="absent")]
        for row in document.refusals
    ]
    table = Table("", ("Method", "asked", "reason"), rows)
    return Page(
        "refused",
        "What could not be run",
        "A method that needs what this model, input or retention does not have says so, and is left out.",
        [table if rows else Sentences("", ["Every method that was asked for ran."])],
    )


def sentences(document: Comparison, retention: float) -> list[str]:
    """What stands out at one retention."""
    rows = [row for row in document.at(retention) if row.prefill_speedup is not None]
    if not rows:
        return []
    best = rows[0]
    found = [
        f"Fastest prefill at {units.percent(retention)}: {best.method}, {_speedup(best.prefill_speedup)} over dense."
    ]
    judged = [row for row in rows if row.kl_nats is not None]
    if judged:
        nearest = min(judged, key=lambda row: row.kl_nats.value if row.kl_nats else 0)
        assert nearest.kl_nats is not None
        found.append(
            f"Nearest to dense: {nearest.method}, KL {units.factor(nearest.kl_nats.value)} nats, at "
            f"{_speedup(nearest.prefill_speedup)}."
        )
        control = next((row for row in judged if row.method == "random"), None)
        if control is not None and control.kl_nats is not None:
            limit = control.kl_nats.value
            beaten = [row.method for row in judged if row.kl_nats and row.kl_nats.value >= limit and row != control]
            found.append(
                f"No nearer to dense than a random choice: {', '.join(beaten)}."
                if beaten
                else "Every method is nearer to dense than a random choice."
            )
    if answered := [row for row in rows if row.accuracy is not None]:
        best_row = max(answered, key=lambda row: row.accuracy.value if row.accuracy else 0)
        assert best_row.accuracy is not None
        found.append(
            f"Most answers right: {best_row.method}, "
            f"{units.percent_within(best_row.accuracy.value, best_row.accuracy.ci95)}, "
            f"at {_speedup(best_row.prefill_speedup)}."
        )
        found += _told_apart(document.reference, answered)
    return found


def _told_apart(reference: str, rows: list[Row]) -> list[str]:
    """Which methods answer more than the reference, which as much as far as these questions can tell, which fewer."""
    sides: dict[str, list[str]] = {"more": [], "": [], "less": []}
    for row in rows:
        if row.reference_difference is not None:
            low, high = row.reference_difference.ci95
            sides["more" if low > 0 else "less" if high < 0 else ""].append(row.method)
    said = {
        "more": f"More answers right than {reference}, the interval of the paired difference above 0",
        "": f"Not told apart from {reference} by their answers",
        "less": f"Fewer right than {reference}",
    }
    return [f"{said[side]}: {', '.join(names)}." for side, names in sides.items() if names]


def _table(document: Comparison, rows: list[Row]) -> Table:
    dense = document.dense
    known = dense is not None and dense.accuracy is not None
    entries = [
        [
            Entry(row.method, note=", ".join(part for part in ("on the front" * row.pareto, row.remark) if part)),
            Entry(units.percent(row.retention.realised) if row.retention else "–"),
            Entry(_speedup(row.prefill_speedup), tone=_tone(row.prefill_speedup)),
            Entry(_speedup(row.total_speedup), tone=_tone(row.total_speedup)),
            Entry(units.milliseconds(row.selection_ms.value) if row.selection_ms else "–"),
            Entry(_share(row.counted_macs, dense.counted_macs if dense else None)),
            Entry(_share(without_choice(row), dense.counted_macs if dense else None)),
            Entry(_share(row.kv_bytes, dense.kv_bytes if dense else None)),
            Entry(units.factor(row.kl_nats.value) if row.kl_nats else "–"),
            Entry(
                units.percent(row.top1_agreement.value, 0) if row.top1_agreement else "–",
                note=f"of {row.top1_agreement.samples}" if row.top1_agreement else "",
            ),
            *_answers(row, known=known),
        ]
        for row in rows
    ]
    columns = (*COLUMNS, "right", "less dense", f"less {document.reference}") if known else COLUMNS
    return Table("Fastest prefill first; work and bytes over dense", columns, entries)


def _answers(row: Row, *, known: bool) -> list[Entry]:
    if row.accuracy is None or row.accuracy_difference is None:
        return [Entry("–")] * 3 if known else []
    right = units.percent_within(row.accuracy.value, row.accuracy.ci95)
    apart = row.reference_difference
    return [
        Entry(units.percent(row.accuracy.value), title=right),
        Entry(verdict.points(row.accuracy_difference)),
        Entry(verdict.points(apart) if apart else "–", tone=_side(apart)),
    ]


def _side(apart: Difference | None) -> str:
    if apart is None:
        return ""
    return "gain" if apart.ci95[0] > 0 else "loss" if apart.ci95[1] < 0 else ""


def without_choice(row: Row) -> int | None:
    """Counted MACs less those of the method's own choice."""
    return None if row.counted_macs is None else row.counted_macs - (row.selection_macs or 0)


def _share(value: int | None, whole: int | None) -> str:
    return units.percent(value / whole) if value is not None and whole else "–"


def _speedup(quantity: Measured | None) -> str:
    return "–" if quantity is None else units.times_within(quantity.value, quantity.ci95)


def _tone(quantity: Measured | None) -> str:
    if quantity is None:
        return ""
    return "gain" if quantity.ci95[0] > 1 else "loss" if quantity.ci95[1] < 1 else ""
