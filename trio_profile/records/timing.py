"""The times of a study: rounds, in which every cell of a block runs once and the dense model runs several times."""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trio_profile.records.drift import drift_of
from trio_profile.records.record import Record, ZeroOrMore

Stopped = Literal["converged", "budget"]
"""Why sampling ended: every interval was as narrow as asked, or the time was spent."""
RunPhase = Literal["prefill", "generation"]
"""The sort of a run: a prefill, or a whole generation."""
Phase = Literal["warm-up"] | RunPhase
"""The sort of a round's runs: runs of either sort whose times do not count, prefills, or whole generations."""
SHORTEST_MS, LONGEST_MS = 1e-9, 1e12
"""The limits of the time of a whole run: a picosecond and thirty years."""
RunMs = Annotated[float, Field(ge=SHORTEST_MS, le=LONGEST_MS)]
"""The time of a whole run in milliseconds. It is more than 0."""
PartMs = Annotated[float, Field(ge=0, le=LONGEST_MS)]
"""The time of a part in milliseconds. It may be 0, because the part may be too short for the clock."""

LEAST_CLOCK = 0.75
"""A round is slow if the GPU's clock is below this share of its full clock. [nvbench's throttling rule]."""


class Disturbance(Record):
    """The disturbance of a run by other processes.

    seconds: how long the run was watched.
    delay_ms: how long a thread of this process was ready but had no CPU: of the thread that waited longest. None if the
        system hides it.
    """

    seconds: Annotated[float, Field(ge=0)] = 0.0
    delay_ms: PartMs | None = None


class Timed(Record):
    """The times of one run. A field is None if it was not measured.

    cell: id of the cell; empty for the dense model.
    prefill_ms: from the first module that runs to the end of the first forward.
    total_ms: the whole call of `generate`. Only in a generation.
    ttft_ms: from the call of `generate` to the end of the first forward. Only in a generation.
    host_ms: the prefill by the host's clock: the time that the host needs to issue the work. None on the CPU.
    cpu_ms: the CPU time of the process during the prefill, all threads together. CPU studies only.
    vision_ms: the vision tower's part of the prefill.
    projector_ms: the projector's part. None if the tower itself projects its output.
    selection_ms: the selections' part. The dense model has none.
    disturbance: what may have disturbed the run.
    """

    cell: str = ""
    prefill_ms: RunMs
    total_ms: RunMs | None = None
    ttft_ms: RunMs | None = None
    host_ms: PartMs | None = None
    cpu_ms: RunMs | None = None
    vision_ms: PartMs | None = None
    projector_ms: PartMs | None = None
    selection_ms: PartMs | None = None
    disturbance: Disturbance | None = None


class Round(Record):
    """One round: each cell of a block ran once, and the dense model several times, in a random order.

    phase: what its runs are.
    runs: in the order in which they ran.
    seconds: how long the round took.
    discarded: whether its times do not count, because the GPU was slow.
    clock_mhz: the GPU's clock after the first run or after the last one, whichever is lower.
    slowed_by: reasons that NVML gave for a lower clock.
    strangers: number of other processes on the GPU.
    session: id of the session.
    """

    record: Literal["round"] = "round"
    phase: Phase
    runs: Annotated[tuple[Timed, ...], Field(min_length=1)]
    seconds: Annotated[float, Field(ge=0)] = 0.0
    discarded: bool = False
    clock_mhz: ZeroOrMore | None = None
    slowed_by: tuple[str, ...] = ()
    strangers: ZeroOrMore = 0
    session: str = ""

    @model_validator(mode="after")
    def _require_dense_and_each_cell_once(self) -> "Round":
        cells = [run.cell for run in self.runs if run.cell]
        if len(cells) == len(self.runs):
            raise ValueError("a round has no dense run")
        if len(set(cells)) < len(cells):
            raise ValueError("a round has a cell twice")
        if self.phase == "generation" and any(run.total_ms is None for run in self.runs):
            raise ValueError("a generation has no total_ms")
        return self

    @property
    def generates(self) -> bool:
        """Return whether its runs are whole generations, be it a warm-up or not."""
        return self.runs[0].total_ms is not None

    @property
    def cells(self) -> tuple[str, ...]:
        """The ids of its cells."""
        return tuple(run.cell for run in self.runs if run.cell)


TIMES = tuple(name for name in Timed.model_fields if name.endswith("_ms"))
"""The times of a run."""
WHOLE_TIMES = ("prefill_ms", "total_ms", "ttft_ms", "cpu_ms")
"""The times of a run whose drift is known. The other times are parts, which may be 0."""


class Pair(Record):
    """A cell's run beside the dense model. It is derived from the rounds of a process.

    dense: the geometric mean of the round's dense runs. Each is moved to the moment of the cell's run by the
        drift of the machine (records/drift.py). The parts of a prefill are not moved.
    pruned: the cell's run.
    clock_mhz: the GPU's clock.
    """

    dense: Timed
    pruned: Timed
    clock_mhz: ZeroOrMore | None = None

    def ratio(self, time: str) -> float | None:
        """Return dense / pruned of a time, such as `prefill_ms`; None if it was not measured."""
        dense, pruned = getattr(self.dense, time), getattr(self.pruned, time)
        return dense / pruned if dense and pruned else None


class Timing(Record):
    """The times of one cell in one session. It is derived from the session's rounds.

    session: id of the session.
    pairs: prefills, in the order of measurement. Without rounds of prefills they are those of the generations.
    generations: whole generations, in the order of measurement.
    """

    session: str = ""
    pairs: tuple[Pair, ...] = ()
    generations: tuple[Pair, ...] = ()


def timings_of(rounds: Sequence[Round]) -> dict[str, tuple[Timing, ...]]:
    """Return the times of each cell by session, by the cell's id. rounds: in the order of measurement."""
    sessions: dict[str, list[Round]] = {}
    for measured in rounds:
        if measured.phase != "warm-up":
            sessions.setdefault(measured.session, []).append(measured)
    counted = {name: [a_round for a_round in measured if not a_round.discarded] for name, measured in sessions.items()}
    prefills, generations = (
        pairs_of([[a_round for a_round in measured if a_round.phase == phase] for measured in counted.values()])
        for phase in ("prefill", "generation")
    )
    timings: dict[str, list[Timing]] = {}
    for (session, measured), short, whole in zip(sessions.items(), prefills, generations, strict=True):
        for cell in dict.fromkeys(cell for a_round in measured for cell in a_round.cells):
            own = tuple(whole.get(cell, ()))
            timing = Timing(session=session, pairs=tuple(short.get(cell, own)), generations=own)
            timings.setdefault(cell, []).append(timing)
    return {cell: tuple(of_cell) for cell, of_cell in timings.items()}


def pairs_of(processes: Sequence[Sequence[Round]]) -> list[dict[str, list[Pair]]]:
    """Return for each process the pairs of each cell, by its id.

    processes: the rounds of each process, all of one phase, in the order of measurement.
    """
    runs = [[run for measured in rounds for run in measured.runs] for rounds in processes]
    drifts: dict[str, list[list[float]]] = {}
    for name in WHOLE_TIMES:
        times = [[getattr(run, name) for run in of_process] for of_process in runs]
        if any(times) and not any(None in of_process for of_process in times):
            drifts[name] = drift_of([[run.cell for run in of_process] for of_process in runs], times)
    pairs: list[dict[str, list[Pair]]] = []
    for number, rounds in enumerate(processes):
        pairs.append({})
        first = 0
        for measured in rounds:
            moments = {name: drift[number][first : first + len(measured.runs)] for name, drift in drifts.items()}
            first += len(measured.runs)
            for cell, pair in _pairs(measured, moments):
                pairs[-1].setdefault(cell, []).append(pair)
    return pairs


def _pairs(measured: Round, drifts: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, Pair]]:
    """Yield each cell of a round with its pair. drifts: of each time, at each run."""
    dense = [(place, run) for place, run in enumerate(measured.runs) if not run.cell]
    means: dict[str, Any] = {name: _mean([getattr(run, name) for _, run in dense]) for name in TIMES}
    levels = {
        name: _mean([getattr(run, name) / drift[place] for place, run in dense]) or 0.0
        for name, drift in drifts.items()
    }
    for place, run in enumerate(measured.runs):
        if run.cell:
            moved: dict[str, Any] = {name: level * drifts[name][place] for name, level in levels.items()}
            # Constructed: extreme times of a run move those of the dense model beyond the limits of a run.
            yield run.cell, Pair(dense=Timed.model_construct(**means | moved), pruned=run, clock_mhz=measured.clock_mhz)


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean; None if a value is missing, their mean if one is 0."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if min(known) <= 0:
        return sum(known) / len(known)
    return exp(sum(map(log, known)) / len(known))
