"""The report of one prefill's time: layer by layer, stage by stage, from the claimed speed-up to the measured one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from trio_profile import units
from trio_profile.judge.attribution import Step
from trio_profile.kinds.layers.document import STAGE_PARTS, LayersDocument, LayerTimes, PartTimes, PrefillTimes
from trio_profile.quantities import entries
from trio_profile.records.estimate import Milliseconds
from trio_profile.report.blocks import (
    Axis,
    Block,
    Chart,
    Entry,
    Page,
    Report,
    Sentences,
    Table,
    Waterfall,
    tabulate,
)
from trio_profile.report.blocks import Step as Bar
from trio_profile.report.charts import line
from trio_profile.report.page import measured_facts, notes
from trio_profile.report.palette import number_of
from trio_profile.text import as_text, listed

_LONG, _SHORT = "time that does not follow work", "more time than work"
"""The end of the name of a step, and its short form for a bar."""
_SMALL_STEP = 0.02
"""The share of the whole time below which a step has no bar of its own."""
_STOPPED = {"converged": "the interval is as narrow as asked", "budget": "the time was up"}


def report(document: LayersDocument) -> Report:
    """The report of one prefill's time. With several retentions the table of all of them is first."""
    cells = document.cells
    several = len(cells) > 1
    pages = [_at(build(cell), cell) if several else build(cell) for cell in cells for build in PAGES]
    pages.insert(0 if several else 1, totals_page(document))
    pages.sort(key=lambda page: bool(page.folded))
    retentions = [units.percent(cell.retention.realised) for cell in cells]
    return Report(
        subject=document.method,
        model=document.study.model,
        facts=[*measured_facts(document), f"{listed(retentions)} retention"],
        pages=pages,
        data=document.model_dump_json(),
    )


def _at(page: Page, cell: PrefillTimes) -> Page:
    """A page of one retention, beside the same page of others: its names are unique in the report."""
    mark = units.plain(cell.retention.nominal)
    blocks = [
        replace(block, id=f"{block.id}-{mark}") if isinstance(block, Chart | Waterfall) else block
        for block in page.blocks
    ]
    title = f"At {units.percent(cell.retention.realised)}: {page.title[0].lower()}{page.title[1:]}"
    return replace(page, id=f"{page.id}-{mark}", title=title, blocks=blocks)


def walk_page(cell: PrefillTimes) -> Page:
    """Why the claimed speed-up did not become time."""
    return Page(
        "walk",
        "From the claimed speed-up to the measured one",
        "The claim is that time falls by the same factor as work by the formula. Each bar is a part of the prefill "
        "that took more time than claimed, or less: its share of the prefills with time stamps, of the time without.",
        [Sentences("", [*_summary(cell)]), *([] if cell.gap else [_attribution(cell.attribution)])],
    )


def _summary(cell: PrefillTimes) -> Iterator[str]:
    """The claim, the measured prefill, the most that pruning can gain, and the whole generation."""
    totals, decode = cell.totals, cell.decode
    speedup, whole, dense_ms = totals.prefill_speedup, cell.efficiency.total_speedup, totals.dense_prefill_ms.value
    if cell.gap:
        yield f"Here is no chart: {cell.gap}. Measure longer, or beside less other work."
    yield (
        f"The formula claims {units.times(cell.claimed_ratio)}. Measured, the prefill is "
        f"{units.times_within(speedup.value, speedup.ci95)} as fast as dense."
    )
    yield (
        f"It takes {units.milliseconds(totals.prefill_ms.value)}, dense takes {units.milliseconds(dense_ms)} "
        f"({units.number_of(speedup.samples, 'round')}; sampling stopped because {_STOPPED[speedup.stopped]})."
    )
    if rest := sum(part.ms.value for part in cell.parts):
        yield f"If layers and selection took no time, it would be {units.times(dense_ms / rest)} as fast as dense."
    yield (
        f"What follows the prefill, {decode.name}, takes {units.milliseconds(decode.ms.value)}, and "
        f"{units.milliseconds(decode.dense_ms.value)} dense. The whole generation is "
        f"{units.times_within(whole.value, whole.ci95)} as fast as dense."
    )


def layers_page(cell: PrefillTimes) -> Page:
    """Every decoder layer."""
    each: dict[str, Callable[[LayerTimes], Entry]] = {
        "layer": lambda layer: Entry(str(layer.layer)),
        "tokens": lambda layer: Entry(str(layer.tokens), note=f"of {layer.dense_tokens}"),
        "dense": lambda layer: entries.milliseconds(layer.dense_forward_ms),
        "pruned": lambda layer: entries.milliseconds(layer.forward_ms),
    }
    if any(layer.operators_ms for layer in cell.layers):
        each["operators of an engine"] = lambda layer: Entry(units.milliseconds_between(*layer.operators_ms or (0, 0)))
    return Page(
        "layers",
        "Every decoder layer",
        "The forward of each layer, with its 95 % interval. The cost of a stage is not in it; the next section has it.",
        [
            _forwards(cell),
            tabulate("Each layer", each, cell.layers, detail=True),
        ],
        folded="Show the time of each layer",
    )


def stages_page(cell: PrefillTimes) -> Page:
    """Every stage, the modules beside the layers, and the whole prefill."""
    stages = {
        "after layer": lambda stage: Entry(str(stage.layer)),
        "tokens": lambda stage: Entry(f"{stage.tokens_before} → {stage.tokens_after}"),
    } | {
        name.replace("_", " "): lambda stage, name=name: entries.milliseconds(getattr(stage, f"{name}_ms"))
        for name in STAGE_PARTS
    }
    parts: dict[str, Callable[[PartTimes], Entry]] = {
        "part": lambda part: Entry(part.name),
        "dense": lambda part: entries.milliseconds(part.dense_ms),
        "pruned": lambda part: entries.milliseconds(part.ms),
    }
    totals = cell.totals
    instrumented = totals.dense_instrumented, totals.instrumented
    stamped = [units.times_within(ratio.value, ratio.ci95) for ratio in instrumented]
    whole = [
        [Entry("share in layers, modules and stages"), *map(entries.share, (totals.dense_named, totals.named))],
        [Entry("with time stamps, over without"), *map(Entry, stamped)],
    ]
    return Page(
        "stages",
        "Stages, other modules, and the whole prefill",
        "“selection” is the whole selection of a stage and contains the columns before it. “compaction” drops the "
        "tokens. Gaps are time in no module: masks, positions, hooks and Python. Time stamps inside the prefill cost "
        "time themselves: “with time stamps, over without” says how much.",
        [
            tabulate("Stages", stages, cell.stages),
            tabulate("Outside the layers", parts, cell.parts, compact=True),
            Table("The whole prefill", ("", "dense", "pruned"), whole, compact=True),
        ],
        folded="Show the parts of each stage, and the modules beside the layers",
    )


PAGES: tuple[Callable[[PrefillTimes], Page], ...] = (walk_page, layers_page, stages_page)


# --- charts ---------------------------------------------------------------------------------------------------------


def _forwards(cell: PrefillTimes) -> Chart:
    """The forward of each decoder layer, dense and pruned, with its interval. Stages are upright lines."""
    times = {
        "dense": [(layer.layer, layer.dense_forward_ms) for layer in cell.layers],
        cell.method: [(layer.layer, layer.forward_ms) for layer in cell.layers],
    }
    series = []
    for name, by_layer in times.items():
        points = [(layer, time, f"{name}\nlayer {layer}: {units.milliseconds(time.value)}") for layer, time in by_layer]
        series.append(line(name, points, colour=None if name == "dense" else number_of(name)))
    return Chart(
        id="layers",
        caption="Forward of each decoder layer",
        label="Milliseconds of each layer, dense and pruned. The table of all layers has the same numbers.",
        x=Axis("Decoder layer", 0, len(cell.layers) + 1),
        y=Axis("Milliseconds", 0, 1.05 * max(high for drawn in series for high in drawn.high)),
        series=series,
        uprights=[stage.layer + 0.5 for stage in cell.stages],
    )


def _bar(name: str, milliseconds: float) -> Bar:
    return Bar(name, milliseconds, units.milliseconds(milliseconds))


def _attribution(steps: Sequence[Step]) -> Waterfall:
    """From the time that the claim promises to the time that was measured.

    steps: the first one is the claim; each other one adds the milliseconds that a part took beyond its promise. Small
        steps share one bar; the document has each of them.
    """
    end = sum(step.added_ms for step in steps)
    small = [step for step in steps[1:] if abs(step.added_ms) < _SMALL_STEP * end]
    large = [step for step in steps if step not in small]
    first, *rest = (_bar(step.name.replace(_LONG, _SHORT), step.added_ms) for step in large)
    if small:
        rest.append(_bar(f"{units.number_of(len(small), 'small step')} together", sum(step.added_ms for step in small)))
    last = _bar("measured, sum of the parts", end)
    label = f"A waterfall from {first.text} to {last.text}, part by part."
    return Waterfall("walk", "One prefill, milliseconds", label, first, rest, last)


_TOTALS = {"Forward": "forward", "Proxy loss": "proxy_loss", "Backward": "backward", "Selection": "selection"}
"""The columns of times, by their heading in the paper. The paper has no column of the selection."""


def totals_page(document: LayersDocument) -> Page:
    """The efficiency table of all retentions, and what is saved by the formula and by count."""
    cells = document.cells
    blocks: list[Block] = [_paper_table(document), _saved_table(cells)]
    reminders = notes((cell.method, cell.notes) for cell in cells)
    if reminders:
        blocks.append(Sentences("Keep in mind", reminders, tone="doubt"))
    return Page(
        "efficiency",
        "The paper's efficiency table",
        "One prefill. Each column adds up a part of it over all layers or all stages, with its 95 % interval. Forward "
        "is the decoder layers. Selection is the whole selection: it contains Proxy loss, Backward and the extra "
        "forward of the probed layer, which the paper's columns do not name. A dash stands where a method does not "
        "have the part, or where compiled code runs it as one with others. The paper's totals of time and of prefill "
        "are those of a whole benchmark, so they are not comparable with these.",
        blocks,
    )


def _paper_table(document: LayersDocument) -> Table:
    """The paper's columns, and the selection. The dense model is the first row."""
    columns: dict[str, Callable[[PrefillTimes], Entry]] = {
        "": _head,
        "MACs, f(n)": lambda cell: entries.macs(cell.efficiency.fastv_macs),
        "Total": lambda cell: entries.milliseconds(cell.efficiency.total_ms),
        "Prefill": lambda cell: entries.milliseconds(cell.totals.prefill_ms),
        "KV": lambda cell: entries.num_bytes(cell.efficiency.kv_bytes),
    }
    for head, name in _TOTALS.items():
        columns[head] = lambda cell, name=name: _interval(getattr(cell.efficiency, f"{name}_ms"))
    tokens = units.number_of(document.study.new_tokens, "new token")
    caption = f"{document.method}: the paper's columns, and Selection. Total is a prefill with {tokens}"
    table = tabulate(caption, columns, document.cells)
    # Cells share the samples of the dense model while both are measured. This one has the most.
    longest = max(document.cells, key=lambda cell: cell.totals.dense_prefill_ms.samples)
    dense = longest.efficiency
    first = [
        Entry("dense"),
        entries.macs(dense.dense_fastv_macs),
        entries.milliseconds(dense.dense_total_ms),
        entries.milliseconds(longest.totals.dense_prefill_ms),
        entries.num_bytes(dense.dense_kv_bytes),
        _interval(dense.dense_forward_ms),
        *[entries.NOTHING] * (len(_TOTALS) - 1),
    ]
    return replace(table, rows=[first, *table.rows])


def _saved_table(cells: Sequence[PrefillTimes]) -> Table:
    """Saved of the paper with γ, beside the counted work and the speed-ups."""
    with_gamma = (row.gammas for row in (cell.efficiency for cell in cells) if row.gammas and row.formula_totals)
    assumed = next((f", γ = {units.plain(gammas.assumed)}" for gammas in with_gamma), "")
    columns: dict[str, Callable[[PrefillTimes], Entry]] = {
        "": _head,
        "tokens kept": lambda cell: Entry(as_text(cell.budgets) or "–", title=f"after {as_text(cell.stage_layers)}"),
        f"Saved{assumed}": lambda cell: Entry(units.percent(cell.efficiency.fastv_saved)),
        "Saved, counted": lambda cell: Entry(
            units.percent(1 - cell.efficiency.counted_macs / cell.efficiency.dense_counted_macs)
        ),
        "prefill speed-up": lambda cell: entries.speedup(cell.totals.prefill_speedup),
        "total speed-up": lambda cell: entries.speedup(cell.efficiency.total_speedup),
    }
    first = cells[0]
    dense = f"{len(first.layers)} · f({first.stages[0].tokens_before if first.stages else 'V0'})"
    caption = f"Saved = 1 − F_total / ({dense}), by the paper's formula and by count; and speed-ups"
    return tabulate(caption, columns, cells)


def _head(cell: PrefillTimes) -> Entry:
    reached = cell.retention.realised
    budgets = f"keeps {as_text(cell.budgets)} tokens after layers {as_text(cell.stage_layers)}" if cell.budgets else ""
    return Entry(units.percent(reached), title=budgets, order=reached)


def _interval(time: Milliseconds | None) -> Entry:
    """A time with its interval."""
    if time is None:
        return entries.NOTHING
    low, high = (units.milliseconds(end).removesuffix(" ms") for end in time.ci95)
    return Entry(units.milliseconds(time.value), note=f"[{low}, {high}]", order=time.value)
