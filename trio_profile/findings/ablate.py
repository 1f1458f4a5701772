"""The report of ablations: a page a group, each variant compared with the default, and what could not be run."""

from collections.abc import Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.analysis.ablate import Ablation, Group, Row
from trio_profile.findings import ablate_charts, doubts
from trio_profile.findings.blocks import Block, Entry, Page, Report, Sentences, Table
from trio_profile.findings.cells import finished_cells, notes
from trio_profile.findings.definitions import numbers_page
from trio_profile.findings.study_page import report_of, study_page
from trio_profile.findings.table import Key, grid, table
from trio_profile.findings.tokens import tokens_page
from trio_profile.quantities import entries
from trio_profile.quantities.closeness import DIVERGENCE
from trio_profile.quantities.quantity import Column

GROUPS = {
    "k_pos": (
        "Supervised rows",
        "k_pos is the number of rows at the end of the prompt that the proxy loss supervises. The paper finds that 1 "
        "is too few, and that 2 to 8 do not differ.",
    ),
    "threshold": (
        "NMS threshold",
        "Two tokens whose cosine reaches the threshold count as duplicates, and one of them is dropped. Without a "
        "threshold (none), saliency alone ranks the tokens. The paper finds 0.8 best, and none worst.",
    ),
    "layers": (
        "Nearby layers",
        "The decoder layers after which tokens are dropped. The paper moves all stages but the first by a layer. Here "
        "each stage is also moved alone. The retention stays the same, so a later first stage leaves fewer tokens to "
        "the others.",
    ),
    "probe": (
        "Probe and rows",
        "The probe `next` looks ahead into the layer that runs next; `current` looks back at the layer that ran last. "
        "The rows `last` supervise the last k_pos rows; `shifted` the k_pos rows before the last one. The paper's "
        "equations use current and last. Its public code uses next and shifted.",
    ),
    "saliency": (
        "How saliency is computed",
        "`autograd` is the paper's procedure: a forward and a backward of the whole probed layer. `tail` computes the "
        "same for the supervised rows alone. Both select the same tokens, to rounding. They differ in cost.",
    ),
}
"""Title of each ablation, and what is changed in it."""


def report(document: Ablation) -> Report:
    """All pages of the report of ablations."""
    pages = [group_page(document, group) for group in document.groups]
    pages += [tokens] if (tokens := tokens_page(document)) is not None else []
    pages += [refusals_page(document), doubts_page(document), study_page(document), numbers_page()]
    return report_of(document, f"Ablations of {document.study.methods[0]}", pages)


def group_page(document: Ablation, group: Group) -> Page:
    """One ablation at every retention."""
    title, what = GROUPS.get(group.name, (group.name, "One option is changed at a time."))
    blocks: list[Block] = []
    for retention in sorted(set(document.study.retentions)):
        if rows := group.at(retention):
            where = f"{group.name} at {units.percent(retention)}"
            blocks += [Sentences(where, sentences(group, retention)), _summary(document, group, rows)]
            if document.dense is not None and document.dense.accuracy is not None:
                blocks.append(ablate_charts.answers(group, retention, document.dense))
            blocks += [ablate_charts.closeness(group, retention), ablate_charts.speedup(group, retention)]
            blocks.append(_table(document, group, rows))
            reminders = notes((row.variant, row.notes) for row in rows)
            reminders += [doubts.summary(document.doubts, finished_cells(rows))] if document.doubts else []
            if reminders:
                blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        group.name.replace(" ", "-"),
        title,
        f"{what} All other options stay as the study has them. The filled point is the default. The horizontal "
        "line is dense. Differences are paired, question by question, with 95 % intervals. So expect that one of "
        "twenty variants that change nothing shows a difference.",
        blocks,
    )


def refusals_page(document: Ablation) -> Page:
    """What could not be run, with the reason."""
    rows = [
        [
            Entry(group.name),
            Entry(row.variant),
            Entry(units.percent(row.nominal_retention)),
            Entry(f"{row.status}: {row.reason}"),
        ]
        for group, row in document.refusals
    ]
    table = Table("Left out", ("Ablation", "variant", "asked", "reason"), rows, prose=True, keys=2)
    return Page(
        "refused",
        "What could not be run",
        "A variant that does not fit this model, input or retention is left out, with the reason.",
        [table if rows else Sentences("", ["Every variant that was asked for ran."], detail=True)],
    )


def doubts_page(document: Ablation) -> Page:
    """The reasons not to trust numbers of this study."""
    rows = [row for group in document.groups for row in group.rows]
    return doubts.page(document.doubts, finished_cells(rows), document.pairs, document.study.methods)


def sentences(group: Group, retention: float) -> list[str]:
    """What stands out at one retention: which variants differ from the default in answers, and in speed."""
    rows = group.at(retention)
    return [*_answers(group.name, rows), *_speeds(rows)]


def _answers(option: str, rows: Sequence[Row]) -> list[str]:
    compared = [(row.variant, row.default_difference) for row in rows if row.default_difference is not None]
    found = [
        f"With {option} = {variant}, {units.points_fewer(apart.value)} right answers than the default "
        f"{units.points_interval(apart.ci95)}."
        for variant, apart in compared
        if entries.tone(apart.ci95, 0)
    ]
    if alike := [variant for variant, apart in compared if not entries.tone(apart.ci95, 0)]:
        found.append(f"No measurable difference from the default in right answers: {'; '.join(alike)}.")
    return found


def _speeds(rows: Sequence[Row]) -> list[str]:
    timed = [(row, row.prefill_speedup) for row in rows if row.prefill_speedup is not None]
    if len(timed) < 2:
        return []
    (slow, least), (fast, most) = min(timed, key=lambda pair: pair[1].ci95[1]), max(timed, key=lambda p: p[1].ci95[0])
    low, high = (units.times_within(speedup.value, speedup.ci95) for speedup in (least, most))
    if most.ci95[0] > least.ci95[1]:
        return [f"Prefill is faster with {fast.variant}, {high} over dense, than with {slow.variant}, {low}."]
    return ["No measurable difference in prefill time."]


# Tables


def _summary(document: Ablation, group: Group, rows: Sequence[Row]) -> Table:
    """The variants beside each other: answers, speed and cost."""
    shown, apart = grid(document, rows), replace(_TO_DEFAULT, head="points to default")
    answers = "Points to the default are paired, question by question. " if shown.answered else ""
    return table(
        shown,
        f"{answers}MACs and KV are relative to dense.",
        ["right", apart, "prefill", "total", "MACs", "KV", *DIVERGENCE],
        [_variant(group)],
        # Where no answers are known, the mean KL is the only sign of what was lost.
        in_sight="KV" if shown.answered else "mean KL, nats",
    )


def _table(document: Ablation, group: Group, rows: Sequence[Row]) -> Table:
    shown = grid(document, rows)
    columns = ["tokens kept", "right within", _TO_DEFAULT, "to dense", shown.changed, *DIVERGENCE]
    columns += ["prefill", "counted within", "selection of dense"]
    printed = any(row.printed is not None for row in rows)
    caption = "Points to the default and to dense are paired. Counted work is over dense, with selection"
    if printed:
        columns.append(_PAPER)
        score = "its score in POPE" if group.name == "layers" else "the share of the dense scores kept, in %"
        caption += f". The paper's column is for LLaVA-1.5-7B at 64 tokens: {score}"
    return table(shown, caption, columns, [_variant(group)], detail=True)


_TO_DEFAULT = Column("to default", lambda row, _: entries.points(row.default_difference), needs_answers=True)
_PAPER = Column("paper", lambda row, _: Entry("–" if row.printed is None else units.score(row.printed)))


def _variant(group: Group) -> Key:
    """The key of a variant's name."""
    return Key(group.name, lambda _, __, row: Entry(row.variant, note="default" if row.default else ""))
