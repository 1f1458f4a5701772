"""The report of ablations: one table with a switch for the ablation, each variant compared with the default."""

from collections.abc import Callable, Iterator, Sequence

from trio_profile import units
from trio_profile.analysis.ablate import Ablation, Row
from trio_profile.findings import doubts
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Table, Terms
from trio_profile.findings.charts import line
from trio_profile.findings.study_page import finished_cells, notes, report_of
from trio_profile.findings.table import Key, grid, table
from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column
from trio_profile.records.estimate import Estimate
from trio_profile.text import listed

GROUPS = {
    "k_pos": "The number of rows at the end of the prompt that the proxy loss supervises. The paper finds that 1 is "
    "too few, and that 2 to 8 do not differ.",
    "threshold": "Two tokens whose cosine reaches the threshold count as duplicates, and one of them is dropped. "
    "Without a threshold (none), saliency alone ranks the tokens. The paper finds 0.8 best, and none worst.",
    "layers": "The decoder layers after which tokens are dropped. The paper moves all stages but the first by a layer. "
    "Here each stage is also moved alone. The retention stays the same, so a later first stage leaves fewer tokens.",
    "probe": "The probe `next` looks ahead into the layer that runs next; `current` looks back at the layer that ran "
    "last. The rows `last` supervise the last k_pos rows; `shifted` the k_pos rows before the last one. The paper's "
    "equations use current and last. Its public code uses next and shifted.",
    "saliency": "`autograd` is the paper's procedure: a forward and a backward of the whole probed layer. `tail` "
    "computes the same for the supervised rows alone. Both select the same tokens, to rounding. They differ in cost.",
}
"""What is changed in each ablation."""
_TO_DEFAULT = Column("points to default", lambda row, _: entries.points(row.default_difference), needs_answers=True)
_PAPER = Column("paper", lambda row, _: Entry("–" if row.printed is None else units.score(row.printed)))
_VARIANT = Key("variant", lambda _, __, row: Entry(row.variant, note="default" if row.default else ""))
_PRINTED = "The paper's column is for LLaVA-1.5-7B at 64 tokens: the share of the dense scores kept, in layers POPE"


def report(document: Ablation) -> Report:
    """All pages of the report of ablations."""
    known = [(name, GROUPS.get(name, "One option is changed.")) for name in document.study.ablations]
    changed = Page("groups", "What is changed", "", [Terms("", known, detail=True)], folded="Show what is changed")
    return report_of(document, f"Ablations of {document.study.methods[0]}", [verdict_page(document), changed])


def verdict_page(document: Ablation) -> Page:
    """Which variants differ from the default, and a table of all variants."""
    rows = document.summaries
    blocks: list[Block] = [Sentences("", [*_answers(document), *_speeds(document)])]
    blocks += [chart] if (chart := differences(document)) is not None else []
    blocks.append(_table(document))
    lines = notes((row.variant, row.notes) for row in rows)
    lines += [doubts.summary(document.doubts, finished_cells(rows))] if document.doubts else []
    if lines:
        blocks.append(Sentences("Keep in mind", lines, tone="doubt"))
    return Page("verdict", "Verdict", "", blocks)


def differences(document: Ablation) -> Chart | None:
    """Each variant beside the default: points of right answers, or the mean KL where no answers are known.

    Only the lowest retention is drawn. None without a finished cell.
    """
    least = min(document.study.retentions)
    rows = {group.name: group.at(least) for group in document.groups}
    answered = document.dense is not None and document.dense.accuracy is not None
    value: Callable[[Row], Estimate | None] = lambda row: row.default_difference if answered else row.kl_nats_mean  # noqa: E731
    places = [(name, row, found) for name, group in rows.items() for row in group if (found := value(row))]
    if not places:
        return None
    scale = 100 if answered else 1
    series = []
    for number, name in enumerate(rows):
        own = [(place, row, found) for place, (of, row, found) in enumerate(places) if of == name]
        points = [
            (place, found, f"{name} {row.variant}{', the default' * row.default}\n{_told(found, answered)}")
            for place, row, found in own
        ]
        look = {"band": False, "colour": number, "line": None, "hollow": [not row.default for _, row, _ in own]}
        series.append(line(name, points, scale, size=8, **look))
    caption = "Right answers, variant minus default" if answered else "Closeness to dense"
    y = Axis("Points of right answers", suffix="") if answered else Axis("Mean KL of the next token, nats", 0)
    return Chart(
        "differences",
        f"{caption}, at {units.percent(least)}",
        f"{caption}, for each variant at {units.percent(least)}. The table has the numbers",
        Axis("", names=[row.variant for _, row, _ in places]),
        y,
        [one for one in series if one.x],
        levels=(0.0,) if answered else (),
        detail=True,
    )


def _told(found: Estimate, answered: bool) -> str:
    return units.points_within(found.value, found.ci95) if answered else units.nats_within(found.value, found.ci95)


def _answers(document: Ablation) -> Iterator[str]:
    """Which variants have measurably more or fewer right answers than the default."""
    several = len(set(document.study.retentions)) > 1

    def where(row: Row) -> str:
        return f" at {units.percent(row.nominal_retention)}" if several else ""

    compared = [
        (f"{group.name} {row.variant}", row, row.default_difference)
        for group in document.groups
        for row in group.rows
        if row.default_difference is not None
    ]
    apart = [
        f"{name}{where(row)} ({units.points_within(found.value, found.ci95)} points)"
        for name, row, found in compared
        if entries.tone(found.ci95, 0)
    ]
    if apart:
        yield f"Measurably different from the default in right answers: {listed(apart)}."
    if alike := len(compared) - len(apart):
        all_of_them = "" if apart else "No variant differs measurably from the default in right answers: "
        yield f"{all_of_them}{alike} of {units.number_of(len(compared), 'comparison')} show no difference."


def _speeds(document: Ablation) -> Iterator[str]:
    """Whether the variants differ in speed."""
    for group in document.groups:
        timed = [(row, row.prefill_speedup) for row in group.at(min(document.study.retentions)) if row.prefill_speedup]
        if len(timed) < 2:
            continue
        (slow, least), (fast, most) = min(timed, key=lambda p: p[1].ci95[1]), max(timed, key=lambda p: p[1].ci95[0])
        if most.ci95[0] > least.ci95[1]:
            low, high = (units.times_within(speedup.value, speedup.ci95) for speedup in (least, most))
            yield f"Prefill is faster with {group.name} {fast.variant}, {high}, than with {slow.variant}, {low}."


def _table(document: Ablation) -> Table:
    """All variants of all groups: answers, speed and cost."""
    of = {id(row): group.name for group in document.groups for row in group.rows}
    shown = grid(document, document.summaries)
    columns: list[str | Column] = ["right", _TO_DEFAULT, "prefill", "MACs", "mean KL, nats"]
    columns += ["total", "KV", "to dense", shown.changed, "counted within", "selection of dense"]
    columns += ["tokens kept", *([_PAPER] if any(row.printed is not None for row in document.summaries) else [])]
    keys: Sequence[str | Key] = [Key("ablation", lambda _, __, row: Entry(of[id(row)])), _VARIANT]
    keys = [*keys, "asked"] if len(set(document.study.retentions)) > 1 else keys
    caption = "MACs and KV are relative to dense. Differences are paired by question"
    caption += f". {_PRINTED}" if _PAPER in columns else ""
    switch = 0 if len(document.groups) > 1 else None
    return table(shown, caption, columns, keys, in_sight="mean KL, nats", switch=switch)
