"""The report of ablations: a page a group, each variant held against the default, and what could not be run."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.analysis.ablate import Ablation, Group, Row
from trio_profile.analysis.sweep import DenseSummary
from trio_profile.findings import charts as figures
from trio_profile.findings import verdict
from trio_profile.findings.blocks import Chart, Entry, Page, Report, Sentences, Table
from trio_profile.findings.sweep import numbers_page, of_study, study_page

GROUPS = {
    "k_pos": (
        "Supervised rows",
        "k_pos is how many rows at the prompt's end the proxy loss supervises. The paper finds 1 too few, and 2 to 8 "
        "alike.",
    ),
    "threshold": (
        "NMS threshold",
        "The cosine from which two tokens count as duplicates, of which one goes; none ranks by saliency alone. The "
        "paper finds 0.8 best, and none worst.",
    ),
    "layers": (
        "Nearby layers",
        "The decoder layers after which tokens are dropped. The paper moves all stages but the first by a layer; here "
        "each is moved alone as well. The retention asked is the same: a later first stage leaves less for the rest.",
    ),
    "probe": (
        "Probe and rows",
        "next looks ahead into the layer that is about to run, current back at the one that has; last supervises the "
        "last k_pos rows, shifted the k_pos before the last one. The paper's equations say current, last; its public "
        "code does next, shifted.",
    ),
    "saliency": (
        "The way to the saliency",
        "autograd is the paper's procedure, a forward and backward of the whole probed layer; tail redoes it for the "
        "supervised rows alone. Both choose the same tokens, to rounding: what differs is the cost.",
    ),
}
"""Title of each ablation, and what is changed in it."""


def report(document: Ablation) -> Report:
    """All pages of it."""
    pages = [group_page(document, group) for group in document.groups]
    pages += [refusals_page(document), study_page(document), numbers_page(document)]
    return of_study(document, f"Ablations of {document.study.methods[0]}", pages)


def group_page(document: Ablation, group: Group) -> Page:
    """One ablation at every retention."""
    title, what = GROUPS.get(group.name, (group.name, "One option is changed at a time."))
    blocks: list[Sentences | Chart | Table] = []
    for retention in sorted(set(document.study.retentions)):
        if rows := group.at(retention):
            blocks += [Sentences(f"At {units.percent(retention)}", sentences(group, retention))]
            blocks += [*_charts(document, group, retention, rows), _table(document, group, rows)]
    return Page(
        group.name.replace(" ", "-"),
        title,
        f"{what} All else stands as the study has it; the filled point is the default, the level line dense. "
        "Differences are paired, question by question, and their intervals hold 95 % each: of twenty variants that "
        "change nothing, one is expected outside.",
        blocks,
    )


def refusals_page(document: Ablation) -> Page:
    """What could not be run, with the reason."""
    rows = [
        [
            Entry(group.name),
            Entry(row.variant),
            Entry(units.percent(row.nominal_retention)),
            Entry(row.reason or "", tone="absent"),
        ]
        for group, row in document.refusals
    ]
    return Page(
        "refused",
        "What could not be run",
        "A variant that this model, input or retention cannot bear says so, and is left out.",
        [
            Table("", ("Ablation", "variant", "asked", "reason"), rows)
            if rows
            else Sentences("", ["Every variant that was asked for ran."])
        ],
    )


def sentences(group: Group, retention: float) -> list[str]:
    """What stands out of one ablation at one retention: who answers otherwise than the default, and what it costs."""
    rows = group.at(retention)
    return [*_answers(group.name, rows), *_speeds(rows)]


def _answers(of: str, rows: Sequence[Row]) -> list[str]:
    compared = [(row.variant, row.default_difference) for row in rows if row.default_difference is not None]
    found = [
        f"{of} {name} answers {verdict.points(less)} than the default."
        for name, less in compared
        if not less.ci95[0] <= 0 <= less.ci95[1]
    ]
    if alike := [name for name, less in compared if less.ci95[0] <= 0 <= less.ci95[1]]:
        found.append(f"Not told apart from the default by their answers: {'; '.join(alike)}.")
    return found


def _speeds(rows: Sequence[Row]) -> list[str]:
    timed = [(row, row.prefill_speedup) for row in rows if row.prefill_speedup is not None]
    if len(timed) < 2:
        return []
    (slow, least), (fast, most) = min(timed, key=lambda pair: pair[1].ci95[1]), max(timed, key=lambda p: p[1].ci95[0])
    low, high = (units.times_within(speedup.value, speedup.ci95) for speedup in (least, most))
    if most.ci95[0] > least.ci95[1]:
        return [f"In prefill {fast.variant}, {high} over dense, is faster than {slow.variant}, {low}."]
    return ["Not told apart by prefill time."]


def _charts(document: Ablation, group: Group, retention: float, rows: Sequence[Row]) -> list[Chart]:
    dense, at, charts = document.dense, f"{group.name.replace(' ', '-')}-{retention:g}", list[Chart]()
    if dense is not None and dense.accuracy is not None:
        label = f"Share of questions answered right, by {group.name}"
        charts.append(Chart(f"right-{at}", "Questions answered right", label, figures.ablated_answers(rows, dense)))
    label = f"How far the next token's distribution lies from the dense one's, by {group.name}"
    charts.append(Chart(f"near-{at}", "Nearness to dense", label, figures.ablated_nearness(rows)))
    label = f"Prefill speed-up over dense, by {group.name}"
    return [*charts, Chart(f"prefill-{at}", "Prefill", label, figures.ablated_speedup(rows))]


def _table(document: Ablation, group: Group, rows: Sequence[Row]) -> Table:
    dense = document.dense
    known = dense is not None and dense.accuracy is not None
    printed = any(row.printed is not None for row in rows)
    columns = [group.name, "budgets"]
    columns += ["right", "to default", "to dense", "same answer"] if known else ["same top token"]
    columns += ["KL, nats", "prefill", "MACs", "choice", *(["paper"] * printed)]
    entries = [
        [
            Entry(row.variant, note="default" if row.default else ""),
            Entry(", ".join(map(str, row.budgets))),
            *(_right(row) if known else [_share(row)]),
            Entry(units.factor(row.kl_nats.value) if row.kl_nats else "–"),
            _speedup(row),
            *(_work(macs or 0, dense) for macs in (row.counted_macs, row.selection_macs)),
            *([Entry("–" if row.printed is None else f"{row.printed:.1f}")] if printed else []),
        ]
        for row in rows
    ]
    caption = "Points to the default and to dense are paired; counted work is over dense, the choice included"
    return Table(caption + _paper(group) * printed, columns, entries)


def _work(macs: int, dense: DenseSummary | None) -> Entry:
    return Entry(units.percent(macs / dense.counted_macs) if dense else "–", title=f"{units.exact(macs)} MACs")


def _paper(group: Group) -> str:
    score = "its score in POPE" if group.name == "layers" else "the share of the dense scores kept, in %"
    return f"; the paper's column is of LLaVA-1.5-7B at 64 tokens: {score}"


def _right(row: Row) -> list[Entry]:
    if row.accuracy is None or row.accuracy_difference is None or row.answer_agreement is None:
        return [Entry("–")] * 4
    apart = row.default_difference
    tone = "" if apart is None else "gain" if apart.ci95[0] > 0 else "loss" if apart.ci95[1] < 0 else ""
    return [
        Entry(units.percent_within(row.accuracy.value, row.accuracy.ci95)),
        Entry("–" if apart is None else units.points_within(apart.value, apart.ci95), tone=tone),
        Entry(units.points_within(row.accuracy_difference.value, row.accuracy_difference.ci95)),
        Entry(units.percent_within(row.answer_agreement.value, row.answer_agreement.ci95)),
    ]


def _share(row: Row) -> Entry:
    found = row.top1_agreement
    return Entry("–") if found is None else Entry(units.percent_within(found.value, found.ci95))


def _speedup(row: Row) -> Entry:
    if (found := row.prefill_speedup) is None:
        return Entry("–")
    tone = "gain" if found.ci95[0] > 1 else "loss" if found.ci95[1] < 1 else ""
    return Entry(units.times(found.value, found.ci95), note=units.interval(found.ci95), tone=tone)
