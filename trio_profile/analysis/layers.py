"""The document of `trio-profile layers`: where the time of one prefill goes, dense and pruned, and why."""

from trio_profile.analysis.attribution import Step
from trio_profile.records.estimate import MeasuredShare, Milliseconds, Ratio
from trio_profile.records.schema import FORMAT, VERSION, Environment, Record, Retention, Study


class LayerTimes(Record):
    """One decoder layer's forward, in ms. tokens: visual and text that it runs on."""

    layer: int
    tokens: int
    dense_tokens: int
    forward_ms: Milliseconds
    dense_forward_ms: Milliseconds


class StageTimes(Record):
    """One stage, after `layer`. selection_ms holds the four before it, as far as a method has them."""

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
    """A module beside the layers, or what lies in no region, named by where it lies."""

    name: str
    ms: Milliseconds
    dense_ms: Milliseconds


class Totals(Record):
    """The whole prefill, and what all named regions make of it.

    speedup: paired ratios of whole prefills without a mark inside, dense over pruned. named: share of the whole that
    lies in layers, modules and stages; the gaps are the rest. instrumented: a prefill with marks over one without.
    """

    prefill_ms: Milliseconds
    dense_prefill_ms: Milliseconds
    prefill_speedup: Ratio
    named: MeasuredShare
    dense_named: MeasuredShare
    instrumented: Ratio
    dense_instrumented: Ratio


class Bounds(Record):
    """The device's measured peaks, and how near the prefill comes to them.

    flops_per_second, bytes_per_second: of a large product and a large copy. mfu: counted FLOPs a second over the first.
    mbu: bytes a second, were every weight read once, over the second. least_ms: no prefill of this work can be faster.
    """

    flops_per_second: float
    bytes_per_second: float
    mfu: float
    dense_mfu: float
    mbu: float
    dense_mbu: float
    least_ms: float
    dense_least_ms: float


class LayersDocument(Record):
    """What `trio-profile layers --json` prints.

    claimed_ratio: dense over pruned by the paper's formula. attribution: from it to the prefill's speed-up;
    total_attribution: to that of a whole generation, `decode` being what follows the prefill.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
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
