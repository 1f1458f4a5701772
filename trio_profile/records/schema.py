"""The records of a study: sessions, the dense model, the picture, each cell (Measurement), and the rounds.

The file `measurements.jsonl` starts with a header line. Each further line is one record, appended when it is measured.
The records keep the raw samples; every statistic is derived from them. Units are in the names of the fields:
`*_macs` counts multiply-adds, and `*_flops` is twice that number.
"""

from collections.abc import Iterable, Sized
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from trio_profile.records.record import FORMAT, VERSION, OneOrMore, Record, Version, ZeroOrMore
from trio_profile.records.study import Cell, Kept, Options, Share, Study  # noqa: F401 - also taken from here
from trio_profile.records.timing import Disturbance, Pair, Round, Stopped, Timed, Timing  # noqa: F401
from trio_profile.records.tokens import KeptTokens, Picture, StageTokens, TokenGrid  # noqa: F401

Status = Literal["done", "counted", "failed", "refused"]


class Environment(Record):
    """The machine and the software of a session. One store holds measurements of one `identity`.

    hostname: name of the machine.
    system: operating system.
    python, torch, transformers, fvcore: versions.
    device_name: the GPU's name, or the CPU's.
    cpu, cpu_threads: the CPU's name, and the number of threads that torch uses; 0 if no model ran.
    memory_bytes: main memory.
    cuda, driver: versions; None without CUDA.
    device_memory_bytes: the GPU's memory; None without CUDA.
    wait_policy: what torch's threads do while they wait: `brief` (they spin for a moment, then sleep), `passive` (they
        sleep at once), `active` (they spin), or `one thread` (none waits).
    allocator: what the host's malloc does with freed memory: `keeps memory`, `returns memory`, `system`, or the name of
        another allocator.
    sdpa: on CUDA, the kernels of `scaled_dot_product_attention` in torch's order of preference.
    cuda_settings: on CUDA, the variables and switches that change a time, by name.
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
    cpu_threads: ZeroOrMore
    memory_bytes: ZeroOrMore | None = None
    cuda: str | None = None
    driver: str | None = None
    device_memory_bytes: ZeroOrMore | None = None
    wait_policy: str = ""
    allocator: str = ""
    sdpa: str | None = None
    cuda_settings: dict[str, str] | None = None
    commit: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Fields that change what a time means."""
        return self.model_dump(exclude={"hostname", "commit", "memory_bytes", "device_memory_bytes"})


class FileDigest(Record):
    """The identity of a file's content.

    bytes: its size.
    sha256: the first sixteen hexadecimal digits of a SHA-256: of the whole file up to 16 MiB, and of 256 blocks of a
        larger one.
    transparent: how many pictures have transparent parts, which the model sees on white; None for none.
    """

    bytes: ZeroOrMore
    sha256: str
    transparent: OneOrMore | None = None


class Session(Record):
    """One opening of a study by one process. Every measurement names its session.

    id: a random name.
    started: when the study was opened.
    command: the command line that the user gave.
    pid: number of the process.
    environment: the machine and the software, with the host's name and the commit.
    load_seconds: time that the process needed to import the libraries and to load the model.
    busy: share of all CPUs' time that other processes used at the start, 0 to 1; None if the system does not say it.
    engine: the program that started this process on a cluster, such as `ray 2.60.0`; empty if there was none.
    version: version of trio-profile.
    inputs: the digests of the files that were measured, by name: `model/config.json`, `image`, `questions`.
    """

    record: Literal["session"] = "session"
    id: str
    started: AwareDatetime | None = None
    command: str = ""
    pid: ZeroOrMore = 0
    environment: Environment
    load_seconds: Annotated[float, Field(ge=0)] = 0.0
    busy: Annotated[float, Field(ge=0)] | None = None
    engine: str = ""
    version: str = ""
    inputs: dict[str, FileDigest] = Field(default_factory=dict)


def first_command(sessions: Iterable[Session]) -> str:
    """Return the command line of the first session that has one. Empty if none has."""
    return next((session.command for session in sessions if session.command), "")


def require_one_length(**lists: Sized) -> None:
    """Raise ValueError if lists that belong together differ in length. The names are those of the fields."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(" and ".join(f"{count} {name}" for name, count in lengths.items()) + " belong together")


class Shape(Record):
    """The sizes of the decoder, of its input and of the vision tower.

    num_layers: number of decoder layers.
    hidden, intermediate: widths of the residual stream and of the FFN.
    query_width, kv_width: widths of all query heads together, and of all key heads together.
    heads: number of query heads.
    vocabulary: number of logits; 0 if it is not known.
    ffn_matrices: matrices of one FFN: 3 with a gate, otherwise 2.
    itemsize: bytes of one number.
    batch: samples in the batch.
    visual_tokens, text_tokens: tokens of one sample that enter the decoder.
    text_after: the text tokens that follow the picture.
    frames: how many frames the videos of one sample have together; 0 for pictures.
    vision_hidden, vision_heads: width and heads of the vision tower; 0 if methods cannot look into it.
    patches: patches of one crop in the vision tower; 0 if methods cannot look into it, or if crops have any size.
    merged: number of patches that become one visual token, in a tower that merges them itself; otherwise 0.
    has_cls: whether the vision tower has a CLS token.
    values_normed: whether a norm follows the projection of a decoder layer's values.
    """

    num_layers: OneOrMore
    hidden: OneOrMore
    intermediate: OneOrMore
    query_width: OneOrMore
    kv_width: OneOrMore
    heads: OneOrMore
    vocabulary: ZeroOrMore
    ffn_matrices: OneOrMore
    itemsize: OneOrMore
    batch: OneOrMore
    visual_tokens: OneOrMore
    text_tokens: ZeroOrMore
    text_after: ZeroOrMore = 0
    frames: ZeroOrMore = 0
    vision_hidden: ZeroOrMore = 0
    vision_heads: ZeroOrMore = 0
    patches: ZeroOrMore = 0
    merged: ZeroOrMore = 0
    has_cls: bool = True
    values_normed: bool = False


class Counted(Record):
    """The counted work of one prefill.

    torch_flops: FLOPs by torch's counter.
    selection_flops: the part of `torch_flops` that the method's selections cost.
    fvcore_macs: MACs by fvcore; None if its tracer cannot follow the model.
    fvcore_reason: why the tracer cannot follow.
    uncounted: operators with a matrix product but without a formula. If there are any, the counts are too low.
    """

    torch_flops: ZeroOrMore
    selection_flops: ZeroOrMore = 0
    fvcore_macs: ZeroOrMore | None = None
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

    draws: OneOrMore = 1
    kl_nats: Annotated[tuple[float, ...], Field(min_length=1)]
    top1: tuple[bool, ...]
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()

    @model_validator(mode="after")
    def _require_one_value_for_each_question(self) -> "Fidelity":
        require_one_length(kl_nats=self.kl_nats, top1=self.top1)
        for name in ("same", "correct"):
            if values := getattr(self, name):
                require_one_length(kl_nats=self.kl_nats, **{name: values})
        if len(self.kl_nats) % self.draws:
            raise ValueError(f"{len(self.kl_nats)} values cannot come from {self.draws} seeds")
        return self

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.kl_nats) // self.draws

    def by_draw(self, name: str) -> list[tuple[Any, ...]]:
        """Return the values of a field for each seed."""
        values, each = getattr(self, name), len(getattr(self, name)) // self.draws
        return [values[draw * each : (draw + 1) * each] for draw in range(self.draws)]

    def chosen(self, first: int) -> "Fidelity":
        """Return the values of the questions from a number on."""
        return Fidelity(draws=self.draws, **{name: _joined([v[first:] for v in self.by_draw(name)]) for name in VALUES})

    def followed_by(self, other: "Fidelity") -> "Fidelity":
        """Return this one with the values of further questions, from the same seeds."""
        values = {
            name: _joined([(*own, *new) for own, new in zip(self.by_draw(name), other.by_draw(name), strict=True)])
            for name in VALUES
        }
        return Fidelity(draws=self.draws, **values)


VALUES = ("kl_nats", "top1", "same", "correct")
"""The fields of Fidelity with values of questions."""


def _joined(by_draw: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the values of all seeds, those of the first one first."""
    return tuple(value for values in by_draw for value in values)


class Retention(Record):
    """The four numbers that are called retention. Each is a share of the visual tokens, 0 to 1.

    nominal: the share that the user gave.
    layer_average: the schedule's share, averaged over the decoder's layers.
    final_layer: the schedule's share in the last layer.
    realised: the share that really ran, averaged over the decoder's layers.
    """

    nominal: Share
    layer_average: Share
    final_layer: Share
    realised: Share


class Header(Record):
    """The first line of a store: what is asked. A later one says that the same study is measured longer."""

    record: Literal["header"] = "header"
    format: Literal["trio-profile"] = FORMAT
    version: Version = VERSION
    study: Kept[Study]


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
    further: exact quantities that have no field of their own, by name; None if there are none.
    energy: joules of a prefill and of a decoded token.
    correct: whether the answer to each question is the known answer, in the order of `Fidelity`.
    kinds: the kind of each question, in the same order.
    pictures: the number of the picture of each question, in the same order. Questions with one number share a picture.
    chance: share of right answers of who always gives the most frequent known answer of a question's kind; None if no
        answers are known, and in older studies.
    session: id of the session that measured it.
    """

    record: Literal["dense"] = "dense"
    shape: Shape
    fastv_macs: ZeroOrMore
    counted: Counted
    kv_bytes: ZeroOrMore
    kv_bytes_predicted: ZeroOrMore
    peak_memory_bytes: ZeroOrMore | None = None
    working_memory_bytes: ZeroOrMore | None = None
    peak_reserved_bytes: ZeroOrMore | None = None
    launches: ZeroOrMore | None = None
    host_waits: ZeroOrMore | None = None
    further: dict[str, ZeroOrMore] | None = None
    energy: Energy | None = None
    correct: tuple[bool, ...] = ()
    kinds: tuple[str, ...] = ()
    pictures: tuple[ZeroOrMore, ...] = ()
    chance: Share | None = None
    session: str = ""

    @model_validator(mode="after")
    def _require_one_value_for_each_question(self) -> "Dense":
        for name in ("kinds", "pictures"):
            if self.correct and (values := getattr(self, name)):
                require_one_length(correct=self.correct, **{name: values})
        return self


class Answers(Record):
    """The answers of one cell, or of the dense model, to some questions.

    A study may ask more questions of some cells than of others. Such answers are records of their own: those of the
    dense model come first, and each follows the answers that are known.

    cell: id of the cell; empty for the dense model.
    numbers: of the questions, from 0. Empty without questions, and if there are more processes than batches of them.
    fidelity: how close the cell's answers are to the dense model's, in the order of `numbers`; None for the dense
        model, and without questions.
    correct: whether the dense model's answers are the known ones, in the same order; empty if none are known.
    kinds, pictures: of all questions up to the last one, as in `Dense`; only of the dense model's further answers.
    chance: as in `Dense`, over all questions; only of the dense model's.
    seconds: that the further answers of all cells took; only of the dense model's.
    session: id of the session that asked.
    """

    record: Literal["answers"] = "answers"
    cell: str = ""
    numbers: tuple[ZeroOrMore, ...] = ()
    fidelity: Fidelity | None = None
    correct: tuple[bool, ...] = ()
    kinds: tuple[str, ...] = ()
    pictures: tuple[ZeroOrMore, ...] = ()
    chance: Share | None = None
    seconds: Annotated[float, Field(ge=0)] = 0.0
    session: str = ""

    @model_validator(mode="after")
    def _require_one_value_for_each_question(self) -> "Answers":
        answered = len(self.numbers)
        if self.correct and len(self.correct) != answered:
            raise ValueError(f"correct: {len(self.correct)} values for {answered} questions")
        if self.fidelity is not None and self.fidelity.questions != answered:
            raise ValueError(f"fidelity: {self.fidelity.questions} questions, and {answered} numbers")
        return self

    def after(self, known: int) -> "Answers | None":
        """Return the answers to questions from a number on. None if there are none."""
        skipped = sum(number < known for number in self.numbers)
        if skipped == len(self.numbers):
            return None
        fidelity = None if self.fidelity is None else self.fidelity.chosen(skipped)
        update = {"numbers": self.numbers[skipped:], "correct": self.correct[skipped:], "fidelity": fidelity}
        return self.model_copy(update=update)


class Measurement(Record):
    """The record of one cell.

    cell: the method, the retention and the options.
    status: `done`; `counted` if only the times are missing; `failed` if it could not be measured; `refused` if the
        method cannot run here.
    reason: why the cell failed or was refused.
    remark: what readers must know of the method wherever its results are shown.
    notes: what readers must know of how the prefill ran, in the process that counted: for example that other code ran
        than was asked for.
    retention: nominal and realised retention.
    layers, budgets: the stages, and the visual tokens that each stage keeps.
    fastv_macs: F_inf + F_ov by the paper's formulas, for the batch.
    fastv_overhead_macs: F_ov alone.
    gamma_counted: counted work of the selections, divided by one forward of each layer that they look at.
    counted … energy: as in `Dense`, for the pruned model.
    fidelity: the comparison of the output with the dense model's output.
    kept: the tokens of the study's picture that stay. None if the model's tokens cannot be placed.
    session: id of the session that counted the cell, or in which it failed.
    timings: the times, one entry for each session. They are derived from the rounds, so the file does not have them.
    """

    record: Literal["measurement"] = "measurement"
    cell: Cell
    status: Status
    reason: str | None = None
    remark: str = ""
    notes: tuple[str, ...] = ()
    retention: Retention | None = None
    layers: tuple[ZeroOrMore, ...] = ()
    budgets: tuple[ZeroOrMore, ...] = ()
    fastv_macs: ZeroOrMore | None = None
    fastv_overhead_macs: ZeroOrMore | None = None
    gamma_counted: Annotated[float, Field(ge=0)] | None = None
    counted: Counted | None = None
    kv_bytes: ZeroOrMore | None = None
    kv_bytes_predicted: ZeroOrMore | None = None
    peak_memory_bytes: ZeroOrMore | None = None
    working_memory_bytes: ZeroOrMore | None = None
    peak_reserved_bytes: ZeroOrMore | None = None
    launches: ZeroOrMore | None = None
    host_waits: ZeroOrMore | None = None
    further: dict[str, ZeroOrMore] | None = None
    energy: Energy | None = None
    fidelity: Fidelity | None = None
    kept: KeptTokens | None = None
    session: str = ""
    timings: tuple[Timing, ...] = Field(default=(), exclude=True)

    @model_validator(mode="after")
    def _require_what_its_status_says(self) -> "Measurement":
        require_one_length(layers=self.layers, budgets=self.budgets)
        return self

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The prefills of all sessions, in the order of measurement."""
        return tuple(pair for timing in self.timings for pair in timing.pairs)
