"""The summary of one cell, and of the dense model: the value of each quantity."""

from pydantic import ConfigDict, Field

from trio_profile.records.estimate import Accuracy, Difference, Milliseconds, Nats, Ratio, Share
from trio_profile.records.schema import Cell, Energy, Record, Retention, Status


class Gamma(Record):
    """γ is the work of the selections, divided by one forward of each layer that they look at.

    assumed: the γ of the paper's formula.
    counted: γ of the counted work; None if no layer was looked at.
    """

    assumed: float
    counted: float | None


class CellSummary(Record):
    """The quantities of one cell. A quantity without a field here becomes a further field of the JSON.

    method: name of the method.
    status: `done`, `failed` or `refused`.
    reason: why the cell failed or was refused.
    remark: what readers must know of the method wherever its results are shown.
    notes: what readers must know of how the prefill ran.
    retention: nominal and realised retention; None unless the cell is done.
    nominal_retention: the share of the visual tokens that the user gave.
    layers, budgets: the stages, and the visual tokens that each stage keeps.

    *_ms: the times in the pruned runs, as in `records.timing.Timed`. dense_*_ms: the same times in the dense runs.
    *_speedup: median of the ratios dense / pruned within rounds. Above 1 pruning is faster. That of the total is put
        together from the prefill, which is measured in more rounds, and the rest of a generation.
    ttft_ms: time to the first token.
    tpot_ms: time of each further token.
    cpu_ms: CPU time of the process during the prefill, all threads together; None on a GPU.
    host_ms: time that the host needs to issue a prefill; None on the CPU.
    vision_ms, projector_ms, selection_ms: parts of the prefill.

    fastv_macs: F_inf + F_ov by the paper's formulas on visual tokens.
    fastv_overhead_macs: F_ov alone.
    gamma: the assumed and the counted γ.
    counted_macs: half of torch's FLOPs, the selections included.
    selection_macs: the part of `counted_macs` that the selections cost.
    fvcore_macs: MACs by fvcore; None if its tracer cannot follow the model.
    uncounted: operators with a matrix product but without a formula. If there are any, `counted_macs` is too low.

    kv_bytes, kv_bytes_predicted: size of the KV cache, measured and by formula.
    peak_memory_bytes: peak memory of one prefill, without weights and inputs.
    working_memory_bytes: the same for a prefill that makes no KV cache.
    peak_reserved_bytes: all memory that the allocator took from the GPU; None on the CPU.
    launches: operators in one prefill.
    host_waits: how often the host waited for a value in one prefill.
    energy: joules of a prefill and of a decoded token.

    kl_nats_mean: KL(dense ‖ pruned) of the next token's distribution: the mean over questions or pictures.
    top1_agreement: share of questions or pictures with the same most likely next token.
    answer_agreement: share of questions with the same generated answer.
    accuracy: share of questions that are answered right.
    accuracy_difference: this accuracy minus the dense model's accuracy on the same questions.
    accuracy_by_kind: the accuracy for each kind of question.
    """

    model_config = ConfigDict(extra="allow")

    method: str
    status: Status
    reason: str | None = None
    remark: str = ""
    notes: tuple[str, ...] = ()
    retention: Retention | None = None
    nominal_retention: float
    layers: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
    prefill_ms: Milliseconds | None = None
    prefill_speedup: Ratio | None = None
    dense_prefill_ms: Milliseconds | None = None
    total_ms: Milliseconds | None = None
    total_speedup: Ratio | None = None
    dense_total_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    dense_ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    dense_tpot_ms: Milliseconds | None = None
    cpu_ms: Milliseconds | None = None
    cpu_speedup: Ratio | None = None
    dense_cpu_ms: Milliseconds | None = None
    host_ms: Milliseconds | None = None
    dense_host_ms: Milliseconds | None = None
    vision_ms: Milliseconds | None = None
    dense_vision_ms: Milliseconds | None = None
    projector_ms: Milliseconds | None = None
    dense_projector_ms: Milliseconds | None = None
    selection_ms: Milliseconds | None = None
    fastv_macs: int | None = None
    fastv_overhead_macs: int | None = None
    gamma: Gamma | None = None
    counted_macs: int | None = None
    selection_macs: int | None = None
    fvcore_macs: int | None = None
    uncounted: tuple[str, ...] = ()
    kv_bytes: int | None = None
    kv_bytes_predicted: int | None = None
    peak_memory_bytes: int | None = None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    kl_nats_mean: Nats | None = None
    top1_agreement: Share | None = None
    answer_agreement: Share | None = None
    accuracy: Accuracy | None = None
    accuracy_difference: Difference | None = None
    accuracy_by_kind: dict[str, Accuracy] = Field(default_factory=dict)

    @property
    def cell(self) -> Cell:
        """The cell as records name it. Only variants of an ablation have options."""
        return Cell(method=self.method, retention=self.nominal_retention, options=getattr(self, "options", {}))

    @property
    def realised(self) -> float:
        """The retention that the cell really ran at; if it never ran, the nominal one."""
        return self.retention.realised if self.retention else self.nominal_retention

    @property
    def speed(self) -> float:
        """The speed-up of the prefill; 0 if it is not known."""
        return self.prefill_speedup.value if self.prefill_speedup else 0.0


class DenseSummary(Record):
    """The dense model's exact quantities and its accuracy. The fields are as in `CellSummary`."""

    model_config = ConfigDict(extra="allow")

    visual_tokens: int
    text_tokens: int
    num_layers: int
    fastv_macs: int
    counted_macs: int
    fvcore_macs: int | None
    uncounted: tuple[str, ...]
    kv_bytes: int
    kv_bytes_predicted: int
    peak_memory_bytes: int | None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    accuracy: Accuracy | None = None
    accuracy_by_kind: dict[str, Accuracy] = Field(default_factory=dict)
