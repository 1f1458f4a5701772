"""The report of a comparison: methods side by side at each retention, their answers, and what could not be run."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.analysis.sweep import DenseSummary
from trio_profile.findings import compare_charts, doubts, entries
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.cells import without_selection
from trio_profile.findings.definitions import numbers_page
from trio_profile.findings.study_page import report_of, study_page
from trio_profile.records.estimate import Measured
from trio_profile.records.schema import Cell


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [comparison_page(document, retention) for retention in sorted(set(document.study.retentions))]
    pages += [answers_page(document, document.dense)] if document.answered and document.dense else []
    pages += [refusals_page(document), doubts_page(document), study_page(document), numbers_page()]
    return report_of(document, f"{len(document.study.methods)} methods", pages)


def comparison_page(document: Comparison, retention: float) -> Page:
    """All methods at one retention."""
    rows, known = document.at(retention), _answers_known(document)
    blocks: list[Block] = []
    if rows:
        blocks = [Sentences("", sentences(document, retention)), _summary(document, rows)]
        blocks += [compare_charts.closeness(document, retention)]
        blocks += [compare_charts.answers(document, retention)] if known else []
        blocks += [_table(document, rows)]
    if rows and document.doubts:
        blocks.append(Sentences("Keep in mind", [doubts.summary(document.doubts, _cells(rows))], tone="doubt"))
    if remarks := [(row.method, row.remark) for row in rows if row.remark]:
        blocks.append(Terms("Remarks", remarks))
    return Page(
        f"at-{units.plain(retention)}",
        f"At {units.percent(retention)}",
        "All methods ran in turn with the same dense runs, in a balanced order. In the chart, right is "
        "faster and down is closer to dense. A filled point is on the Pareto front: no other method is both faster and "
        "closer to dense. If the weights were never trained, closeness says what is left of the dense model's "
        "computation, and nothing about answers. Downsample is the mean of neighbouring patches. A method that draws "
        "at random was run with several seeds.",
        blocks,
    )


def answers_page(document: Comparison, dense: DenseSummary) -> Page:
    """Right answers of each method at each retention, and the difference to the reference method."""
    retentions = sorted(set(document.study.retentions))
    first = [Entry("dense"), *[entries.share(dense.accuracy)] * len(retentions)]
    rows = [
        [Entry(method), *(_right(by_retention.get(retention)) for retention in retentions)]
        for method, by_retention in document.answered.items()
    ]
    caption = f"Questions answered right, and points to {document.reference}"
    blocks: list[Block] = [Table(caption, ("Method", *map(units.percent, retentions)), [first, *rows])]
    blocks += [_kinds_table(document, dense, retention) for retention in retentions if dense.accuracy_by_kind]
    questions = dense.accuracy.samples if dense.accuracy else 0
    return Page(
        "answers",
        "Answers",
        f"{questions} questions, the same for every method and retention, with 95 % intervals. A difference to "
        f"{document.reference} is paired, question by question. Where its interval holds 0, these questions show no "
        "difference. A method that draws at random was run with several seeds.",
        blocks,
    )


def refusals_page(document: Comparison) -> Page:
    """What could not be run, with the reason."""
    rows = [
        [Entry(row.method), Entry(units.percent(row.nominal_retention)), Entry(f"{row.status}: {row.reason}")]
        for row in document.refusals
    ]
    table = Table("Left out", ("Method", "asked", "reason"), rows, prose=True)
    return Page(
        "refused",
        "What could not be run",
        "A method that needs what this model, input or retention does not have says so, and is left out.",
        [table if rows else Sentences("", ["Every method that was asked for ran."], detail=True)],
    )


def doubts_page(document: Comparison) -> Page:
    """The reasons not to trust numbers of this study."""
    return doubts.page(document.doubts, _cells([row for row in document.rows if row.status == "done"]))


def _cells(rows: Sequence[Row]) -> list[Cell]:
    return [Cell(method=row.method, retention=row.nominal_retention) for row in rows]


def sentences(document: Comparison, retention: float) -> list[str]:
    """What stands out at one retention."""
    rows = [row for row in document.at(retention) if row.prefill_speedup is not None]
    if not rows:
        return []
    best, where = rows[0], units.percent(retention)
    found = [f"Fastest prefill at {where}: {best.method}, {_faster(best.prefill_speedup)} over dense."]
    return [*found, *_closeness(rows), *_most_right(document.reference, rows)]


def _closeness(rows: list[Row]) -> list[str]:
    """Which method is closest to dense, and which ones are no closer than random selection."""
    judged = [(row, row.kl_nats.value) for row in rows if row.kl_nats is not None]
    if not judged:
        return []
    closest, kl = min(judged, key=lambda one: one[1])
    speed = _faster(closest.prefill_speedup)
    found = [f"Closest to dense: {closest.method}, KL {units.factor(kl)} nats, with a prefill speed-up of {speed}."]
    limit = next((kl for row, kl in judged if row.method == "random"), None)
    if limit is not None:
        beaten = [row.method for row, kl in judged if kl >= limit and row.method != "random"]
        found.append(
            f"No closer to dense than random selection: {', '.join(beaten)}."
            if beaten
            else "Every method is closer to dense than random selection."
        )
    return found


def _most_right(reference: str, rows: list[Row]) -> list[str]:
    """Which methods have the most right answers, and how the others' compare with the reference method's."""
    answered = [(row, row.accuracy) for row in rows if row.accuracy is not None]
    if not answered:
        return []
    most = max(right.value for _, right in answered)
    best = [(row, right) for row, right in answered if right.value == most]
    names = listed([row.method for row, _ in best])
    # A method that ran with several seeds has another interval at the same value.
    share = _only({units.percent_within(most, right.ci95) for _, right in best}) or units.percent_of_all(most)
    speed = f", with a prefill speed-up of {_faster(best[0][0].prefill_speedup)}" if len(best) == 1 else ""
    return [f"Most right answers: {names}, {share}{speed}.", *_against(reference, rows)]


def _against(reference: str, rows: list[Row]) -> list[str]:
    """Which methods have more right answers than the reference, which fewer, and which show no difference."""
    sides: dict[str, list[str]] = {"gain": [], "": [], "loss": []}
    for row in rows:
        if row.reference_difference is not None:
            sides[entries.tone(row.reference_difference.ci95, 0)].append(row.method)
    said = {
        "gain": f"More right answers than {reference}, the paired interval above 0",
        "": f"No measurable difference from {reference} in right answers",
        "loss": f"Fewer right answers than {reference}, the paired interval below 0",
    }
    return [f"{said[side]}: {', '.join(names)}." for side, names in sides.items() if names]


def _only(texts: set[str]) -> str:
    """The only text of a set; empty if the set holds several."""
    return next(iter(texts)) if len(texts) == 1 else ""


def _faster(found: Measured | None) -> str:
    return "–" if found is None else units.times_within(found.value, found.ci95)


# Tables


def _summary(document: Comparison, rows: list[Row]) -> Table:
    """What 80 columns hold. Where right answers are known, they replace the share of equal next tokens."""
    known, dense = _answers_known(document), document.dense
    last = "right" if known else "same token"
    table = [
        [
            Entry(row.method, note="*" * row.pareto),
            entries.speedup(row.prefill_speedup),
            entries.short_speedup(row.total_speedup),
            entries.factor(row.selection_ms),
            entries.ratio(row.counted_macs, dense.counted_macs if dense else None, 0),
            entries.ratio(row.kv_bytes, dense.kv_bytes if dense else None, 0),
            entries.factor(row.kl_nats),
            entries.short_share(row.accuracy if known else row.top1_agreement),
        ]
        for row in rows
    ]
    caption = (
        "Speed-up, and cost relative to dense. * marks the Pareto front: no other method is both faster and closer"
    )
    columns = ("Method", "prefill", "total", "Selection, ms", "MACs", "KV", "KL, nats", last)
    return Table(f"{caption} to dense.", columns, table)


def _table(document: Comparison, rows: list[Row]) -> Table:
    dense = document.dense
    answers = ("right", "against dense", f"against {document.reference}") if _answers_known(document) else ()
    columns = (
        "Method",
        "realised",
        "prefill",
        "total",
        "selection",
        "MACs",
        "without selection",
        "KV bytes",
        "KL, nats",
        "same top token",
        *answers,
    )
    table = [
        [
            Entry(row.method, note=", ".join(part for part in ("Pareto front" * row.pareto, row.remark) if part)),
            Entry(units.percent(row.retention.realised)) if row.retention else entries.NOTHING,
            entries.speedup(row.prefill_speedup),
            entries.speedup(row.total_speedup),
            entries.milliseconds(row.selection_ms),
            entries.ratio(row.counted_macs, dense.counted_macs if dense else None),
            entries.ratio(without_selection(row), dense.counted_macs if dense else None),
            entries.ratio(row.kv_bytes, dense.kv_bytes if dense else None),
            entries.factor(row.kl_nats),
            _same_token(row),
            *(_answers(row) if answers else []),
        ]
        for row in rows
    ]
    return Table("Fastest prefill first; work and bytes over dense", columns, table, detail=True)


def _same_token(row: Row) -> Entry:
    found = row.top1_agreement
    return entries.NOTHING if found is None else Entry(units.percent_of_all(found.value, 0), note=f"of {found.samples}")


def _answers(row: Row) -> list[Entry]:
    less, apart = row.accuracy_difference, row.reference_difference
    return [entries.short_share(row.accuracy), entries.points(less), entries.points(apart)]


def _kinds_table(document: Comparison, dense: DenseSummary, retention: float) -> Table:
    kinds = list(dense.accuracy_by_kind)
    first = [Entry("dense"), *(entries.share(dense.accuracy_by_kind[kind]) for kind in kinds)]
    rows = [
        [Entry(method), *(entries.share(by_retention[retention].accuracy_by_kind.get(kind)) for kind in kinds)]
        for method, by_retention in document.answered.items()
        if retention in by_retention
    ]
    caption = f"By kind of question, at {units.percent(retention)}"
    return Table(caption, ("Method", *kinds), [first, *rows], detail=True)


def _right(row: Row | None) -> Entry:
    """The right answers of a method, and as a note the difference to the reference method."""
    if row is None or row.accuracy is None:
        return Entry("–", tone="absent")
    apart = row.reference_difference
    text = units.percent_within(row.accuracy.value, row.accuracy.ci95)
    if apart is None:
        return Entry(text)
    return Entry(text, note=units.points_within(apart.value, apart.ci95), tone=entries.tone(apart.ci95, 0))


def _answers_known(document: Comparison) -> bool:
    return document.dense is not None and document.dense.accuracy is not None
