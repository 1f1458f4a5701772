"""The report of a comparison: methods side by side at each retention, their answers, and what could not be run."""

from collections.abc import Mapping, Sequence

from trio_profile import units
from trio_profile.analysis.cells import CellSummary, DenseSummary
from trio_profile.analysis.compare import Comparison, Row
from trio_profile.analysis.recommendation import CONTROL, fastest, keeps_answers
from trio_profile.findings import budget_notes, cell_tables, doubts, pareto, recommendation
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.cells import finished_cells, notes
from trio_profile.findings.definitions import numbers_page
from trio_profile.findings.study_page import report_of, study_page
from trio_profile.findings.table import grid, table
from trio_profile.findings.tokens import tokens_page
from trio_profile.quantities import entries, right_answers
from trio_profile.quantities.closeness import DIVERGENCE
from trio_profile.quantities.quantity import Column
from trio_profile.records.estimate import Measured
from trio_profile.text import listed


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [verdict_page(document)]
    pages += [comparison_page(document, retention) for retention in sorted(set(document.study.retentions))]
    pages += [answers_page(document, document.dense)] if document.answered and document.dense else []
    pages += [tokens] if (tokens := tokens_page(document)) is not None else []
    pages += [refusals_page(document), doubts_page(document), study_page(document), numbers_page()]
    return report_of(document, f"{len(document.study.methods)} methods", pages)


def verdict_page(document: Comparison) -> Page:
    """What to do, and all methods and retentions in one chart and one table."""
    done = [row for row in document.rows if row.status == "done"]
    blocks: list[Block] = [recommendation.block(document.recommendation)]
    if (speed := pareto.chart(done, document.study.methods, document.reference, document.dense)) is not None:
        blocks.append(speed)
    if done:
        blocks.append(_best_table(document, done))
    reminders = [*notes((row.method, row.notes) for row in document.rows)]
    reminders += [*budget_notes.sentences(document.clamped_above, document.idle_stages)]
    if done and document.doubts:
        reminders.append(doubts.summary(document.doubts, finished_cells(done)))
    if reminders:
        blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        "verdict",
        "Verdict",
        f"{pareto.NOTE} Controls are simple rules for comparison. They are never recommended. With random weights, "
        "closeness to dense says nothing about answers.",
        blocks,
    )


def comparison_page(document: Comparison, retention: float) -> Page:
    """All methods at one retention."""
    rows = document.at(retention)
    blocks: list[Block] = []
    if rows:
        blocks = [Sentences("", sentences(document, retention)), _table(document, rows)]
    if remarks := [(row.method, row.remark) for row in rows if row.remark]:
        blocks.append(Terms("Remarks", remarks))
    return Page(
        f"at-{units.plain(retention)}",
        f"At {units.percent(retention)}",
        "All methods ran in turn with the same dense runs, in a balanced order. Points lost are paired, question by "
        "question. Downsample is the mean of neighbouring patches. A method that draws at random was run with several "
        "seeds.",
        blocks,
    )


def answers_page(document: Comparison, dense: DenseSummary) -> Page:
    """Right answers of each method at each retention, and the difference to the reference method."""
    retentions = sorted(set(document.study.retentions))
    first = [Entry("dense"), *[entries.share(dense.accuracy)] * len(retentions)]
    marked = doubts.marks(document.doubts, finished_cells(document.rows))
    rows = [
        [Entry(method), *(_right(by_retention.get(retention), marked) for retention in retentions)]
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
        f"{document.reference} is paired, question by question. If its interval contains 0, these questions show no "
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
        "A method that needs what this model, input or retention does not have is left out, with the reason.",
        [table if rows else Sentences("", ["Every method that was asked for ran."], detail=True)],
    )


def doubts_page(document: Comparison) -> Page:
    """The reasons not to trust numbers of this study."""
    return doubts.page(document.doubts, finished_cells(document.rows), document.pairs, document.study.methods)


def sentences(document: Comparison, retention: float) -> list[str]:
    """What stands out at one retention: the best method that is no control, then what the answers say."""
    rows = [row for row in document.at(retention) if row.prefill_speedup is not None]
    methods = [row for row in rows if row.remark != CONTROL]
    if not methods:
        return []
    best, where = fastest(methods), units.percent(retention)
    if best is None:
        lost = " and keeps the right answers" if _answers_known(document) else ""
        first = f"At {where} no method is measurably faster than dense{lost}."
    else:
        lost = ", among those that keep the right answers" if best.accuracy is not None else ""
        first = f"Fastest method at {where}{lost}: {best.method}, {_faster(best.prefill_speedup)} over dense."
    return [first, *_most_right(document.reference, methods, rows), *_closeness(methods, rows), *_factors(rows)]


def _factors(rows: list[Row]) -> list[str]:
    """The counted overhead factor of each method with a proxy loss, beside γ of the paper's formula."""
    known = [(row.method, row.gamma) for row in rows if row.fastv_overhead_macs and row.gamma is not None]
    counted = [(method, gamma.counted) for method, gamma in known if gamma.counted is not None]
    if not counted:
        return []
    below = " A factor below 1 is no γ of the paper, which is 1 + β." if min(value for _, value in counted) < 1 else ""
    factors = listed([f"{method} {units.factor(value)}" for method, value in counted])
    return [f"The formula takes γ = {units.plain(known[0][1].assumed)}. Overhead factors by count: {factors}.{below}"]


def _closeness(methods: list[Row], rows: list[Row]) -> list[str]:
    """Which method is closest to dense where no answers are known, and which ones are no closer than random ones.

    methods: those of the rows that are no controls.
    """
    judged = [(row, row.kl_nats_mean.value) for row in methods if row.kl_nats_mean is not None]
    random = next((row.kl_nats_mean for row in rows if row.method == "random"), None)
    found: list[str] = []
    if judged and not any(row.accuracy is not None for row in rows):
        closest, kl = min(judged, key=lambda one: one[1])
        speed = _faster(closest.prefill_speedup)
        found.append(f"Closest to dense: {closest.method}, mean KL {units.power(kl)} nats, prefill {speed}.")
    if random is not None and judged:
        beaten = [row.method for row, kl in judged if kl >= random.value]
        found.append(
            f"By mean KL, no closer to dense than random selection: {listed(beaten)}."
            if beaten
            else "By mean KL, every method is closer to dense than random selection."
        )
    return found


def _most_right(reference: str, methods: list[Row], rows: list[Row]) -> list[str]:
    """Which methods have the most right answers, and how the others' compare with the reference method's.

    methods: those of the rows that are no controls.
    """
    answered = [(row, row.accuracy) for row in methods if row.accuracy is not None]
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

_REMARK = Column("remark", lambda row, _: Entry(row.remark or "–"))


def _best_table(document: Comparison, done: Sequence[Row]) -> Table:
    """A row for each method: its fastest cell that pays and keeps the answers; otherwise its lowest retention."""
    shown = []
    for method in document.study.methods:
        rows = [row for row in done if row.method == method]
        if rows:
            shown.append(fastest(rows) or min(rows, key=lambda row: row.nominal_retention))
    shown.sort(key=lambda row: (row.remark == CONTROL, not keeps_answers(row), -row.speed))
    caption = f"{cell_tables.at_its_best(known=_answers_known(document))}. Controls last"
    return _methods_table(document, shown, caption, ["method", "at"])


def _table(document: Comparison, rows: Sequence[Row]) -> Table:
    """All methods at one retention."""
    ordered = sorted(rows, key=lambda row: (row.remark == CONTROL, not keeps_answers(row), -row.speed))
    kept = "Methods that keep the right answers first, the fastest of them on top"
    caption = f"{kept if _answers_known(document) else 'The fastest method on top'}. Controls last"
    return _methods_table(document, ordered, caption, ["method"])


def _methods_table(document: Comparison, rows: Sequence[CellSummary], caption: str, keys: Sequence[str]) -> Table:
    """A row for each cell."""
    shown = grid(document, rows)
    head = f"right, to {document.reference}"
    apart = Column(head, lambda row, _: entries.points(row.reference_difference), needs_answers=True)
    formula = ("f(n)", "overhead factor of the formula", "f(n) with the factor")
    work = ("selection", "MACs without selection", *formula, "tokens kept")
    columns = [*cell_tables.IN_SIGHT, *work, shown.changed, *DIVERGENCE, *cell_tables.FURTHER_COLUMNS, apart, _REMARK]
    return table(shown, caption, columns, keys, in_sight="KV")


def _kinds_table(document: Comparison, dense: DenseSummary, retention: float) -> Table:
    rows = [by_retention[retention] for by_retention in document.answered.values() if retention in by_retention]
    kinds = [right_answers.of_kind(kind, entries.share) for kind in dense.accuracy_by_kind]
    caption = f"By kind of question, at {units.percent(retention)}"
    return table(grid(document, rows), caption, kinds, ["method"], with_dense=True, detail=True)


def _right(row: Row | None, marked: Mapping[str, str]) -> Entry:
    """The right answers of a method, and as a note the difference to the reference method."""
    if row is None or row.accuracy is None:
        return Entry("–", tone="absent")
    apart, doubt = row.reference_difference, marked.get(row.cell.id, "")
    text = units.percent_within(row.accuracy.value, row.accuracy.ci95)
    if apart is None:
        return Entry(text, doubt=doubt)
    note = units.points_within(apart.value, apart.ci95)
    return Entry(text, note=note, doubt=doubt, tone=entries.tone(apart.ci95, 0))


def _answers_known(document: Comparison) -> bool:
    return document.dense is not None and document.dense.accuracy is not None
