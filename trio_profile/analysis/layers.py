"""The document of `trio-profile layers`: the time of each part of one prefill, dense and pruned."""

from trio_profile.analysis.attribution import Step
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.records.schema import Record, Retention


class LayerTimes(Record):
    """The times of one decoder layer's forward.

    layer: number of the layer, from 1.
    tokens, dense_tokens: visual and text tokens that the layer runs on, in the pruned and in the dense prefill.
    forward_ms, dense_forward_ms: the times of its forward.
    """

    layer: int
    tokens: int
    dense_tokens: int
    forward_ms: Milliseconds
    dense_forward_ms: Milliseconds


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


class Totals(Record):
    """The times of the whole prefill.

    prefill_ms, dense_prefill_ms: the whole prefill, timed without marks inside.
    prefill_speedup: median of the paired ratios dense / pruned.
    named, dense_named: share of the time in layers, modules and stages. The rest is in the gaps.
    instrumented, dense_instrumented: time with marks / time without marks.
    """

    prefill_ms: Milliseconds
    dense_prefill_ms: Milliseconds
    prefill_speedup: Ratio
    named: MeasuredShare
    dense_named: MeasuredShare
    instrumented: Ratio
    dense_instrumented: Ratio


class Bounds(Record):
    """The measured peaks of the device, and how close the prefill comes to them.

    flops_per_second: speed of a large matrix product.
    bytes_per_second: speed of a large copy.
    mfu, dense_mfu: counted FLOPs per second of the prefill / flops_per_second.
    mbu, dense_mbu: bytes of all weights per second of the prefill / bytes_per_second.
    least_ms, dense_least_ms: the least possible time of a prefill with this work on this device.
    """

    flops_per_second: float
    bytes_per_second: float
    mfu: float
    dense_mfu: float
    mbu: float
    dense_mbu: float
    least_ms: float
    dense_least_ms: float


class LayersDocument(StudyDocument):
    """What `trio-profile layers --json` prints.

    layers, stages, parts: the times of the prefill's parts.
    totals, bounds: the whole prefill.
    claimed_ratio: dense work / pruned work by the paper's formula.
    attribution: the steps from the claimed ratio to the prefill's speed-up.
    decode: the time after the prefill.
    total_attribution: the steps from the claimed ratio to the speed-up of a whole generation.
    trace: path of trace.json, which Perfetto and Chrome open.
    report: path of report.html.
    """

    method: str
    retention: Retention
    layers: tuple[LayerTimes, ...]
    stages: tuple[StageTimes, ...]
    parts: tuple[PartTimes, ...]
    totals: Totals
    bounds: Bounds
    claimed_ratio: float
    attribution: tuple[Step, ...]
    decode: PartTimes
    total_attribution: tuple[Step, ...]
    trace: str | None = None
    report: str | None = None
