"""The times of a cell: pairs of a dense run and a pruned run."""

from typing import Annotated, Literal

from pydantic import Field

from trio_profile.records.record import Record, ZeroOrMore

Stopped = Literal["converged", "plateau", "budget"]
RunMs = Annotated[float, Field(ge=1e-9, le=1e12)]
"""The time of a whole run in milliseconds: more than 0, between a picosecond and thirty years."""
PartMs = Annotated[float, Field(ge=0, le=1e12)]
"""The time of a part in milliseconds. It may be 0, because the part may be too short for the clock."""

LEAST_CLOCK = 0.75
"""A pair is slow if the GPU's clock is below this share of its full clock. [nvbench's throttling rule]."""


class Disturbance(Record):
    """What may have disturbed the two runs of one pair. A field is None if the system hides it.

    seconds: how long the two runs were watched.
    pressure: the share of this time in which some process of the machine waited for a CPU. [Linux PSI]
    delay_ms: how long a thread of this process was ready but had no CPU: of the thread that waited longest in each run.
    migrations: how often a thread of this process moved to another CPU.
    preemptions: how often a thread of this process lost its CPU to another one.
    faults: memory pages that were taken from the system.
    cpu: the CPU on which the main thread was at the end.
    """

    seconds: Annotated[float, Field(ge=0)] = 0.0
    pressure: Annotated[float, Field(ge=0)] | None = None
    delay_ms: PartMs | None = None
    migrations: ZeroOrMore | None = None
    preemptions: ZeroOrMore | None = None
    faults: ZeroOrMore | None = None
    cpu: ZeroOrMore | None = None


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
    cpu_ms: the CPU time of the process during the prefill, all threads together. CPU studies only.
    clock_mhz: the GPU's clock before or after the round, whichever is lower.
    disturbance: what may have disturbed the two runs.
    """

    dense_first: bool
    dense_prefill_ms: RunMs
    dense_total_ms: RunMs
    prefill_ms: RunMs
    total_ms: RunMs
    dense_ttft_ms: RunMs | None = None
    ttft_ms: RunMs | None = None
    dense_host_ms: PartMs | None = None
    host_ms: PartMs | None = None
    dense_vision_ms: PartMs | None = None
    vision_ms: PartMs | None = None
    dense_projector_ms: PartMs | None = None
    projector_ms: PartMs | None = None
    selection_ms: PartMs | None = None
    dense_cpu_ms: RunMs | None = None
    cpu_ms: RunMs | None = None
    clock_mhz: ZeroOrMore | None = None
    disturbance: Disturbance | None = None


class Timing(Record):
    """The times of one cell in one session.

    session: id of the session.
    seconds: measured time of the pairs, with the cell's share of the dense runs. 0 in old files.
    warmups: rounds before the first pair.
    discarded: rounds that were discarded because the GPU was slow.
    slowed_by: reasons that NVML gave for the lower clock.
    strangers: number of other processes on the GPU.
    stopped: why sampling ended.
    pairs: in the order of measurement.
    """

    session: str = ""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    warmups: ZeroOrMore = 0
    discarded: ZeroOrMore = 0
    slowed_by: tuple[str, ...] = ()
    strangers: ZeroOrMore = 0
    stopped: Stopped
    pairs: Annotated[tuple[Pair, ...], Field(min_length=1)]
