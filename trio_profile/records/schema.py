"""The records: what is asked (Study, Cell), where (Environment), what was seen (Dense, Measurement).

`measurements.jsonl` is a header line and then one record a line, appended as it is measured; raw samples are kept and
every statistic is derived from them. Units stand in the names; `*_macs` count multiply-adds, `*_flops` twice that.

History of the format
    1  first version
"""

from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = "trio-profile"
VERSION = 1

Share = Annotated[float, Field(ge=0, le=1)]
Stopped = Literal["converged", "plateau", "budget"]
Status = Literal["done", "failed", "refused"]
Options = dict[str, bool | int | float | str | tuple[int, ...]]


class Record(BaseModel):
    """An immutable record that refuses names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Study(Record):
    """What is asked: one model and one input, some methods, some retentions.

    verb: whether retentions are to be seen, or methods, or a method's options, which decides the report.
    retentions: nominal, averaged over layers. layers: prune after these; None takes the paper's for the model's depth.
    options: further options of the methods. image, prompt: for models with a processor; without them the input is the
    model's own question where it has some, else drawn from the seed; text_tokens: of text, and always drawn (60).
    gamma: the backward factor γ of F_ov = γ · Σ f(V). precision: relative
    half width of a speed-up's interval at which sampling stops; cell_seconds: measured time at which it stops anyway.
    On CUDA: preroll_ms, the stream is kept busy for so long before each run, so that the host is ahead and the times
    are the device's alone; cold_l2, its cache is overwritten before each run. questions: a file of questions about
    pictures (inputs/questions.py), on which the pruned model is held against the dense one; without it the model's
    own where it has some, else drawn pictures. fidelity_inputs: how many of them; None takes all of a file, 200 of the
    model's own, and none that are drawn. ablations: by group and by name, the options in which a variant differs from
    the method as it stands; nothing for that one itself.
    """

    verb: Literal["sweep", "compare", "ablate"] = "sweep"
    model: str = "pocket"
    methods: tuple[str, ...] = ("trio",)
    retentions: tuple[Share, ...] = (0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88, 0.94, 0.99)
    layers: tuple[int, ...] | None = None
    options: dict[str, bool | int | float | str] = {}
    image: str | None = None
    prompt: str | None = None
    text_tokens: Annotated[int, Field(ge=8, le=100_000)] | None = None
    new_tokens: Annotated[int, Field(ge=1, le=100_000)] = 8
    batch: Annotated[int, Field(ge=1, le=4096)] = 1
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attention: str = "sdpa"
    seed: int = 0
    gamma: Annotated[float, Field(gt=0, le=1000)] = 1.0
    precision: Annotated[float, Field(gt=0, lt=1)] = 0.01
    cell_seconds: Annotated[float, Field(gt=0)] = 5.0
    preroll_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    cold_l2: bool = False
    questions: str | None = None
    fidelity_inputs: Annotated[int, Field(ge=0, le=10_000)] | None = None
    ablations: dict[str, dict[str, Options]] = {}

    def cells(self) -> list["Cell"]:
        """Each method at each retention, least retention first; as it stands, then each variant once."""
        variants: list[Options] = [{}]
        for options in (options for group in self.ablations.values() for options in group.values()):
            if options not in variants:
                variants.append(options)
        return [
            Cell(method=method, retention=retention, options=options)
            for method in self.methods
            for retention in sorted(set(self.retentions))
            for options in variants
        ]

    def block(self, cell: "Cell") -> tuple[float, int]:
        """Cells of which this is alike are compared, and so timed in turn: of one retention, and of one ablation."""
        of = (number for number, group in enumerate(self.ablations.values()) if cell.options in group.values())
        return cell.retention, next(of, -1)


class Cell(Record):
    """One point of a study. Its identity is its content: the same cell in the same study is the same work.

    options: of the method, in which it differs from the study's.
    """

    method: str
    retention: Share
    options: Options = {}

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits of the content's hash."""
        return sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:12]

    @property
    def variant(self) -> str:
        """The method with what differs: `trio`, `trio (k_pos = 1)`."""
        changed = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return f"{self.method} ({changed})" if changed else self.method


class Environment(Record):
    """Where it was measured. `identity` is what must agree for two records to stand in one store.

    sdpa: on CUDA, the kernels of `scaled_dot_product_attention` in the order in which torch prefers them.
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
    """The decoder's sizes, and what entered it; the vision tower's where a method may look into it, else 0.

    text_after: of the text tokens, those behind the picture.
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
    """Work that ran in one prefill, as torch's counter (FLOPs) and fvcore (MACs) see it.

    selection_flops: the part of torch_flops inside the methods' choices. fvcore_macs: None with the reason in
    fvcore_reason where the tracer cannot follow. uncounted: operators with a matrix product that no formula covers.
    """

    torch_flops: int
    selection_flops: int = 0
    fvcore_macs: int | None = None
    fvcore_reason: str | None = None
    uncounted: tuple[str, ...] = ()


class Energy(Record):
    """Joules above idle of one prefill, and of each token decoded after it, over `seconds` of repeated work each.

    reason: why there are none.
    """

    prefill_j: float | None = None
    token_j: float | None = None
    idle_w: float | None = None
    seconds: float | None = None
    reason: str | None = None


class Fidelity(Record):
    """How near the pruned model is to the dense one, question by question, and seed by seed if the method has one.

    kl_nats: KL(dense ‖ pruned) of the next-token distribution. top1: whether the likeliest token is the same. same:
    whether the generated answer is, of questions; correct: whether it is the known one. draws: so many times each
    question stands in them, all of them once before any a second time.
    """

    draws: int = 1
    kl_nats: tuple[float, ...]
    top1: tuple[bool, ...]
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()


class Removal(Record):
    """Tokens removed after one layer alone, by one choice, on one question; `kept` of its visual tokens stayed.

    bound: (Σ s_i · ‖h_i‖)² over the removed tokens, the paper's bound on the divergence but for its constant. norms:
    the same without saliency, (Σ ‖h_i‖)². kl_nats: KL(dense ‖ pruned) of the next token.
    """

    question: int
    layer: int
    choice: str
    kept: int
    bound: float
    norms: float
    kl_nats: float


class Header(Record):
    """The first line of a store, and again whenever a later session goes on with it."""

    record: Literal["header"] = "header"
    format: Literal["trio-profile"] = FORMAT
    version: int = VERSION
    study: Study
    environment: Environment


class Dense(Record):
    """The unpruned model on the study's input: the exact quantities that cells are held against.

    peak_memory_bytes: of one prefill, beyond weights and inputs; working_memory_bytes: the same without a cache;
    peak_reserved_bytes: what the allocator held, weights and all, where it tells. launches: operators that compute, in
    one prefill; host_waits: times the host needed a tensor's value. distinct_ratios: prefill times of pictures not seen
    before over those of the study's own, paired; about 1 unless something keeps what it made of a picture. correct:
    whether each question was answered as is known, and kinds: of which kind it is, in the order of every Fidelity.
    questions: the digest of a file of them.
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
    """The four numbers that are called retention: asked, averaged over layers, in the last layer, and really run."""

    nominal: float
    layer_average: float
    final_layer: float
    realised: float


class Pair(Record):
    """One dense and one pruned run of one round, in the order that `dense_first` says.

    Methods at one retention share the dense run of a round. ttft: from the call of `generate` to the end of its first
    forward. host: the prefill by the host's clock, where the device has one of its own: what the host takes to issue
    the work. vision, projector, selection: parts of the prefill; a tower that projects its own output has no projector,
    and dense selects nothing. clock_mhz: the slower of the clocks before and after the round, where a GPU tells. None
    in records of before they were measured.
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
    """One finished cell, one that failed for want of memory, or one that a method refused; each with its reason.

    remark: what must be known of the method wherever it is shown. Exact quantities as in Dense. discarded: pairs that a
    slowed-down GPU spoilt. slowed_by: what NVML gave as reasons. strangers: other processes that were seen on the GPU
    meanwhile.
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
