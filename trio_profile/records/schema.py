"""The records of a study: the machine (Environment), the dense model (Dense) and each cell (Measurement).

The file `measurements.jsonl` starts with a header line. Each further line is one record, appended when it is measured.
The records keep the raw samples; every statistic is derived from them. Units are in the names of the fields:
`*_macs` counts multiply-adds, and `*_flops` is twice that number.

History of the format
    1  first version
"""

from typing import Any, Literal

from pydantic import AliasChoices, Field

from trio_profile.records.record import FORMAT, VERSION, Record
from trio_profile.records.study import Cell, Options, Study

__all__ = [
    "FORMAT",
    "VERSION",
    "Cell",
    "Counted",
    "Dense",
    "Energy",
    "Environment",
    "Fidelity",
    "Header",
    "Measurement",
    "Options",
    "Pair",
    "Record",
    "Removal",
    "Retention",
    "Shape",
    "Status",
    "Stopped",
    "Study",
]

Stopped = Literal["converged", "plateau", "budget"]
Status = Literal["done", "failed", "refused"]


class Environment(Record):
    """The machine and the software of a measurement. One store holds measurements of one `identity`.

    hostname: name of the machine.
    system: operating system.
    python, torch, transformers, fvcore: versions.
    device_name: the GPU's name, or the CPU's.
    cpu, cpu_threads: the CPU's name, and the number of threads that torch uses.
    memory_bytes: main memory.
    cuda, driver: versions; None without CUDA.
    device_memory_bytes: the GPU's memory; None without CUDA.
    sdpa: on CUDA, the kernels of `scaled_dot_product_attention` in torch's order of preference.
    commit: commit of this repository; None outside a repository.
    """

    hostname: str
    system: str
    python: str
    torch: str
    transformers: str
    fvcore: str
    device_name: str
    cpu: str
    cpu_threads: int
    memory_bytes: int | None = None
    cuda: str | None = None
    driver: str | None = None
    device_memory_bytes: int | None = None
    sdpa: str | None = None
    commit: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Fields that change what a time means."""
        return self.model_dump(exclude={"hostname", "commit", "memory_bytes", "device_memory_bytes"})


class Shape(Record):
    """The sizes of the decoder, of its input and of the vision tower.

    num_layers: number of decoder layers.
    hidden, intermediate: widths of the residual stream and of the FFN.
    query_width, kv_width: widths of all query heads together, and of all key heads together.
    heads: number of query heads.
    vocabulary: number of logits.
    ffn_matrices: matrices of one FFN: 3 with a gate, otherwise 2.
    itemsize: bytes of one number.
    batch: samples in the batch.
    visual_tokens, text_tokens: tokens of one sample that enter the decoder.
    text_after: the text tokens that follow the picture.
    vision_hidden, vision_heads: width and heads of the vision tower; 0 if methods cannot look into it.
    patches: patches of one crop in the vision tower; 0 if methods cannot look into it, or if crops have any size.
    merged: number of patches that become one visual token, in a tower that merges them itself; otherwise 0.
    """

    num_layers: int
    hidden: int
    intermediate: int
    query_width: int
    kv_width: int
    heads: int
    vocabulary: int
    ffn_matrices: int
    itemsize: int
    batch: int
    visual_tokens: int
    text_tokens: int
    text_after: int = 0
    vision_hidden: int = 0
    vision_heads: int = 0
    patches: int = 0
    merged: int = 0


class Counted(Record):
    """The counted work of one prefill.

    torch_flops: FLOPs by torch's counter.
    selection_flops: the part of `torch_flops` that the method's selections cost.
    fvcore_macs: MACs by fvcore; None if its tracer cannot follow the model.
    fvcore_reason: why the tracer cannot follow.
    uncounted: operators with a matrix product but without a formula. If there are any, the counts are too low.
    """

    torch_flops: int
    selection_flops: int = 0
    fvcore_macs: int | None = None
    fvcore_reason: str | None = None
    uncounted: tuple[str, ...] = ()


class Energy(Record):
    """The measured energy above the idle GPU's.

    prefill_j: joules of one prefill.
    token_j: joules of one decoded token.
    idle_w: power of the idle GPU in watts.
    seconds: how long the work was repeated for each of the two.
    reason: why there is no measurement.
    """

    prefill_j: float | None = None
    token_j: float | None = None
    idle_w: float | None = None
    seconds: float | None = None
    reason: str | None = None


class Fidelity(Record):
    """How close the pruned model's output is to the dense model's output.

    Each field has one value for each question. A random method runs with several seeds: then the values of all
    questions for the first seed come first, then those for the second seed, and so on.

    draws: number of seeds.
    kl_nats: KL(dense ‖ pruned) of the next token's distribution.
    top1: whether the most likely next token is the same.
    same: whether the generated answer is the same; empty for pictures without a question.
    correct: whether the answer is the known answer; empty if no answers are known.
    """

    draws: int = 1
    kl_nats: tuple[float, ...]
    top1: tuple[bool, ...]
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()


class Removal(Record):
    """Tokens of one question that one selection removed after one layer.

    question: number of the question, from 0.
    layer: the layer after which tokens are removed, from 1.
    selection: name of the selection. Old records call this field `choice`.
    kept: number of visual tokens that stayed.
    bound: (Σ s_i · ‖h_i‖)² over the removed tokens: the paper's bound on the divergence, without its constant.
    norms: the same without saliency, (Σ ‖h_i‖)².
    kl_nats: KL(dense ‖ pruned) of the next token.
    """

    question: int
    layer: int
    selection: str = Field(validation_alias=AliasChoices("selection", "choice"))
    kept: int
    bound: float
    norms: float
    kl_nats: float


class Header(Record):
    """The first line of a store: the study and the machine."""

    record: Literal["header"] = "header"
    format: Literal["trio-profile"] = FORMAT
    version: int = VERSION
    study: Study
    environment: Environment


class Dense(Record):
    """The dense model on the study's input. Cells are compared with these quantities.

    shape: sizes of the decoder and of its input.
    fastv_macs: L · f(V0) by the paper's formula, for the batch.
    counted: the counted work of one prefill.
    kv_bytes: measured size of the KV cache after the prefill.
    kv_bytes_predicted: the same by formula.
    peak_memory_bytes: peak memory of one prefill, without weights and inputs.
    working_memory_bytes: the same for a prefill that makes no KV cache.
    peak_reserved_bytes: all memory that the allocator took from the GPU, weights included; None on a CPU.
    launches: operators in one prefill that compute something.
    host_waits: how often the host waited for a tensor's value in one prefill.
    energy: joules of a prefill and of a decoded token.
    distinct_ratios: prefill time of a picture that the model has not seen before, divided by the prefill time of the
        study's own picture, in pairs. The ratios are near 1 unless something caches the picture.
    correct: whether the answer to each question is the known answer, in the order of `Fidelity`.
    kinds: the kind of each question, in the same order.
    questions: hash of the file of questions; empty without a file.
    """

    record: Literal["dense"] = "dense"
    shape: Shape
    fastv_macs: int
    counted: Counted
    kv_bytes: int
    kv_bytes_predicted: int
    peak_memory_bytes: int | None = None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    distinct_ratios: tuple[float, ...] = ()
    correct: tuple[bool, ...] = ()
    kinds: tuple[str, ...] = ()
    questions: str = ""


class Retention(Record):
    """The four numbers that are called retention. Each is a share of the visual tokens, 0 to 1.

    nominal: the share that the user gave.
    layer_average: the schedule's share, averaged over the decoder's layers.
    final_layer: the schedule's share in the last layer.
    realised: the share that really ran, averaged over the decoder's layers.
    """

    nominal: float
    layer_average: float
    final_layer: float
    realised: float


class Pair(Record):
    """The times of one dense run and one pruned run, measured in the same round.

    All cells of one retention share the dense run of a round. A field is None if it was not measured.

    dense_first: whether the dense run came before the pruned run.
    prefill_ms: from the first module that runs to the end of the first forward.
    total_ms: the whole call of `generate`.
    ttft_ms: from the call of `generate` to the end of the first forward.
    host_ms: the prefill by the host's clock: the time that the host needs to issue the work. None on the CPU.
    vision_ms: the vision tower's part of the prefill.
    projector_ms: the projector's part. None if the tower itself projects its output.
    selection_ms: the selections' part. The dense run has none.
    dense_*: the same times of the dense run.
    clock_mhz: the GPU's clock before or after the round, whichever is lower.
    """

    dense_first: bool
    dense_prefill_ms: float
    dense_total_ms: float
    prefill_ms: float
    total_ms: float
    dense_ttft_ms: float | None = None
    ttft_ms: float | None = None
    dense_host_ms: float | None = None
    host_ms: float | None = None
    dense_vision_ms: float | None = None
    vision_ms: float | None = None
    dense_projector_ms: float | None = None
    projector_ms: float | None = None
    selection_ms: float | None = None
    clock_mhz: int | None = None


class Measurement(Record):
    """The record of one cell.

    cell: the method, the retention and the options.
    status: `done`; `failed` if memory ran out; `refused` if the method cannot run here.
    reason: why the cell failed or was refused.
    remark: what readers must know of the method wherever its results are shown.
    retention: nominal and realised retention.
    layers, budgets: the stages, and the visual tokens that each stage keeps.
    fastv_macs: F_inf + F_ov by the paper's formulas, for the batch.
    fastv_overhead_macs: F_ov alone.
    gamma_counted: counted work of the selections, divided by one forward of each layer that they look at.
    counted … energy: as in `Dense`, for the pruned model.
    fidelity: the comparison of the output with the dense model's output.
    warmups: rounds before the first pair.
    discarded: pairs that were discarded because the GPU was slow.
    slowed_by: reasons that NVML gave for the lower clock.
    strangers: number of other processes on the GPU during the measurement.
    pairs: the times, in the order of measurement.
    stopped: why sampling ended.
    """

    record: Literal["measurement"] = "measurement"
    cell: Cell
    status: Status
    reason: str | None = None
    remark: str = ""
    retention: Retention | None = None
    layers: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
    fastv_macs: int | None = None
    fastv_overhead_macs: int | None = None
    gamma_counted: float | None = None
    counted: Counted | None = None
    kv_bytes: int | None = None
    kv_bytes_predicted: int | None = None
    peak_memory_bytes: int | None = None
    working_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    launches: int | None = None
    host_waits: int | None = None
    energy: Energy | None = None
    fidelity: Fidelity | None = None
    warmups: int = 0
    discarded: int = 0
    slowed_by: tuple[str, ...] = ()
    strangers: int = 0
    pairs: tuple[Pair, ...] = ()
    stopped: Stopped | None = None
