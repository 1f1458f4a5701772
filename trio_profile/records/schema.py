"""The records of a study: sessions, the dense model, the picture, each cell (Measurement), and the rounds.

The file `measurements.jsonl` starts with a header line. Each further line is one record, appended when it is measured.
The records keep the raw samples; every statistic is derived from them. Units are in the names of the fields:
`*_macs` counts multiply-adds, and `*_flops` is twice that number.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trio_profile.records.quantities import (
    Counted,
    Energy,
    Fidelity,
    Retention,
    Shape,
    require_one_length,
)
from trio_profile.records.record import FORMAT, VERSION, Record, Version, ZeroOrMore
from trio_profile.records.session import Environment, Session
from trio_profile.records.study import Cell, Options, Study
from trio_profile.records.timing import Disturbance, Pair, Round, Stopped, Timed, Timing
from trio_profile.records.tokens import KeptTokens, Picture, StageTokens, TokenGrid

__all__ = [
    "FORMAT",
    "VERSION",
    "Cell",
    "Counted",
    "Dense",
    "Disturbance",
    "Energy",
    "Environment",
    "Fidelity",
    "Header",
    "KeptTokens",
    "Measurement",
    "Options",
    "Pair",
    "Picture",
    "Record",
    "Retention",
    "Round",
    "Session",
    "Shape",
    "StageTokens",
    "Status",
    "Stopped",
    "Study",
    "Timed",
    "Timing",
    "TokenGrid",
]

Status = Literal["done", "counted", "failed", "refused"]


class Header(Record):
    """The first line of a store: what is asked. A later one says that the same study is measured longer."""

    record: Literal["header"] = "header"
    format: Literal["trio-profile"] = FORMAT
    version: Version = VERSION
    study: Study


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
    distinct_ratios: prefill time of a picture that the model has not seen before, divided by the prefill time of the
        study's own picture, in pairs. The ratios are near 1 unless something caches the picture.
    correct: whether the answer to each question is the known answer, in the order of `Fidelity`.
    kinds: the kind of each question, in the same order.
    pictures: the number of the picture of each question, in the same order. Questions with one number share a picture.
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
    distinct_ratios: tuple[Annotated[float, Field(gt=0)], ...] = ()
    correct: tuple[bool, ...] = ()
    kinds: tuple[str, ...] = ()
    pictures: tuple[ZeroOrMore, ...] = ()
    session: str = ""

    @model_validator(mode="after")
    def _require_one_value_for_each_question(self) -> "Dense":
        for name in ("kinds", "pictures"):
            if self.correct and (values := getattr(self, name)):
                require_one_length(correct=self.correct, **{name: values})
        return self


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

    @property
    def discarded(self) -> int:
        """The number of rounds that were discarded because the GPU was slow."""
        return sum(timing.discarded for timing in self.timings)

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """The reasons that NVML gave for the lower clock."""
        return tuple(sorted({reason for timing in self.timings for reason in timing.slowed_by}))

    @property
    def strangers(self) -> int:
        """The largest number of other processes on the GPU."""
        return max((timing.strangers for timing in self.timings), default=0)
