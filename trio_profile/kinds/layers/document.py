"""The document of `trio-profile layers`: the time of each part of one prefill, dense and pruned, at each retention."""

from math import log
from typing import Annotated

from pydantic import AfterValidator, Field

from trio_profile import units
from trio_profile.cost.factors import FormulaTotal, Gammas
from trio_profile.judge.attribution import Step
from trio_profile.judge.claims import TimedPrefill, of_prefills
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Interval, MeasuredShare, Milliseconds, Ratio
from trio_profile.records.record import OneOrMore
from trio_profile.records.schema import Record, Retention, first_command
from trio_profile.stats.intervals import widened
from trio_profile.study.table_rows import Flat, filled, flat
from trio_profile.text import with_option

PARTS_DIFFER = 0.05
"""If the parts of a prefill add up to a time that differs by more, they do not explain it."""
MARKS_DIFFER = 0.25
"""If time stamps inside change the time of a prefill by more, its parts are not those of the prefill without them."""
STAGE_PARTS = ("proxy_forward", "proxy_loss", "backward", "nms", "selection", "compaction")
"""The spans of a stage, whose times are the fields with these names and `_ms`."""


class LayerTimes(Record):
    """The times of one decoder layer's forward.

    layer: number of the layer, from 1.
    tokens, dense_tokens: visual and text tokens that the layer runs on, in the pruned and in the dense prefill.
    forward_ms, dense_forward_ms: the times of its forward.
    operators_ms: of its operators on another GPU, as predicted: the least and the most over the engines that have a
        table. None without `gpu`.
    """

    layer: int
    tokens: int
    dense_tokens: int
    forward_ms: Milliseconds
    dense_forward_ms: Milliseconds
    operators_ms: Interval | None = None


class StageTimes(Record):
    """The times of one stage.

    A part is None if the method does not have it.

    layer: the layer after which the stage acts.
    tokens_before, tokens_after: visual tokens before and after the stage.
    proxy_forward_ms, proxy_loss_ms, backward_ms, nms_ms: parts of the selection.
    selection_ms: the whole selection.
    compaction_ms: removal of the other tokens.
    """

    layer: int
    tokens_before: int
    tokens_after: int
    proxy_forward_ms: Milliseconds | None = None
    proxy_loss_ms: Milliseconds | None = None
    backward_ms: Milliseconds | None = None
    nms_ms: Milliseconds | None = None
    selection_ms: Milliseconds
    compaction_ms: Milliseconds


class PartTimes(Record):
    """The times of a part of the prefill outside the layers.

    name: a module, or a gap between two measured regions, such as `before the layers`.
    ms, dense_ms: the times in the pruned and in the dense prefill.
    """

    name: str
    ms: Milliseconds
    dense_ms: Milliseconds


def _above_zero(time: Milliseconds) -> Milliseconds:
    if time.value <= 0:
        raise ValueError(f"a prefill takes more than {time.value:g} ms")
    return time


class Totals(Record):
    """The times of the whole prefill.

    prefill_ms, dense_prefill_ms: the whole prefill, timed without marks inside.
    prefill_speedup: median of the paired ratios dense / pruned.
    named, dense_named: share of the time in layers, modules and stages. The rest is in the gaps.
    instrumented, dense_instrumented: time with marks / time without marks.
    """

    prefill_ms: Annotated[Milliseconds, AfterValidator(_above_zero)]
    dense_prefill_ms: Annotated[Milliseconds, AfterValidator(_above_zero)]
    prefill_speedup: Ratio
    named: MeasuredShare
    dense_named: MeasuredShare
    instrumented: Ratio
    dense_instrumented: Ratio


class Efficiency(Record):
    """A row of the paper's efficiency table: the work of one prefill, and the times of its parts, added up.

    fastv_macs, dense_fastv_macs: F_total, and L · f(V0) of the dense prefill, by the paper's formula.
    fastv_saved: Saved of the paper, 1 − fastv_macs / dense_fastv_macs, a ratio.
    gammas: the overhead factors of the method; None if no stage drops tokens.
    formula_totals: the paper's formula with each overhead factor; empty for a method without F_ov.
    counted_macs, dense_counted_macs: the counted work, the selections included.
    kv_bytes, dense_kv_bytes: size of the KV cache after the prefill.
    forward_ms, dense_forward_ms: the forwards of all decoder layers. The extra forward of a probed layer is in
        `proxy_forward_ms`.
    proxy_forward_ms, proxy_loss_ms, backward_ms, nms_ms: parts of the selections of all stages; None if the method does
        not have the part.
    selection_ms: the selections of all stages, these parts included; None without a stage.
    compaction_ms: removal of the other tokens at all stages; None without a stage.
    total_ms, dense_total_ms: a whole generation.
    total_speedup: median of its paired ratios dense / pruned.
    """

    fastv_macs: OneOrMore
    dense_fastv_macs: OneOrMore
    fastv_saved: float
    gammas: Gammas | None
    formula_totals: tuple[FormulaTotal, ...]
    counted_macs: OneOrMore
    dense_counted_macs: OneOrMore
    kv_bytes: OneOrMore
    dense_kv_bytes: OneOrMore
    forward_ms: Milliseconds
    dense_forward_ms: Milliseconds
    proxy_forward_ms: Milliseconds | None = None
    proxy_loss_ms: Milliseconds | None = None
    backward_ms: Milliseconds | None = None
    nms_ms: Milliseconds | None = None
    selection_ms: Milliseconds | None = None
    compaction_ms: Milliseconds | None = None
    total_ms: Milliseconds
    dense_total_ms: Milliseconds
    total_speedup: Ratio


class PrefillTimes(Record):
    """The times of one prefill, dense and pruned.

    method, retention: of the pruned prefill.
    layers, stages, parts: the times of the prefill's parts.
    totals: the whole prefill.
    claimed_ratio: dense work / pruned work by the paper's formula.
    attribution: the steps from the claimed ratio to the prefill's speed-up.
    decode: the time after the prefill.
    stage_layers, budgets: the schedule's stages, and the visual tokens kept at each.
    notes: what readers must know of how the prefill ran.
    efficiency: its row of the paper's efficiency table.
    """

    method: str
    retention: Retention
    layers: Annotated[tuple[LayerTimes, ...], Field(min_length=1)]
    stages: tuple[StageTimes, ...]
    parts: tuple[PartTimes, ...]
    totals: Totals
    claimed_ratio: float
    attribution: tuple[Step, ...]
    decode: PartTimes
    stage_layers: tuple[int, ...]
    budgets: tuple[int, ...]
    notes: tuple[str, ...] = ()
    efficiency: Efficiency

    @property
    def gap(self) -> str:
        """Why the parts are not those of the prefill that is printed, in a sentence. Empty if they are."""
        totals = self.totals
        dense = (self.attribution[0].added_ms * self.claimed_ratio, totals.dense_prefill_ms, totals.dense_instrumented)
        pruned = (sum(step.added_ms for step in self.attribution), totals.prefill_ms, totals.instrumented)
        for model, (parts, whole, marks) in (("dense", dense), (self.method, pruned)):
            share = parts / whole.value
            if abs(log(share)) > log(1 + PARTS_DIFFER):
                return f"the parts of the prefill of {model} add up to {units.percent(share)} of its time"
            if abs(log(marks.value)) > log(1 + MARKS_DIFFER):
                return f"with time stamps inside, the prefill of {model} takes {units.times(marks.value)} its time"
        return ""


class LayersDocument(PrefillTimes, StudyDocument):
    """The output of `trio-profile layers --json`.

    The fields of `PrefillTimes` are those of the lowest retention: of the only one, if the study has one.

    cells: the times at each retention, the lowest first.
    trace: path of trace.json, which Perfetto and Chrome open.
    report: path of report.html.
    """

    cells: Annotated[tuple[PrefillTimes, ...], Field(min_length=1)]
    trace: str | None = None
    report: str | None = None


def layer_rows(document: LayersDocument) -> list[Flat]:
    """Return the layers of a document: one row for each layer at each retention."""
    return filled(
        [
            {"method": cell.method, "retention": cell.retention.nominal, **flat(LayerTimes, layer)}
            for cell in document.cells
            for layer in cell.layers
        ]
    )


def conclude(document: LayersDocument) -> Conclusion:
    """Return whether the prefill becomes faster by the factor by which its work falls."""
    prefills = []
    for cell in document.cells:
        speedup = cell.totals.prefill_speedup
        prefills.append(
            TimedPrefill(
                name=f"{cell.method} at {units.percent(cell.retention.realised)}",
                claimed=cell.claimed_ratio,
                measured=widened(speedup.ci95, len(document.cells), speedup.samples, of_ratio=True),
                gap=cell.gap,
                processes=speedup.sessions,
            )
        )
    conclusion = of_prefills(prefills)
    command = first_command(document.sessions).replace(" layers", " sweep", 1)
    if not command or not conclusion.sureness:
        return conclusion
    retentions = ",".join(f"{cell.retention.nominal:g}" for cell in document.cells)
    for name, value in (("gpu", ""), ("retention", retentions), ("out", "ANOTHER")):
        command = with_option(command, name, value)
    return conclusion.model_copy(update={"next": command})
