"""What one process measures: some of the counts and answers of a study, or rounds of its cells.

Everything is yielded as soon as it is measured. A process that counts or asks questions times nothing, because it is
slower afterwards by some percent. Only a study of one process does both in it.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

from trio_core.errors import TrioError
from trio_profile.engine.counting import count, failure_of, measure_dense
from trio_profile.engine.plan import Plan, PlannedCell, resolve
from trio_profile.engine.shares import Answers
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.picture import picture_of
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import fidelity, power, rounds
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.records.schema import Dense, Measurement, Picture, Round, Session, Study
from trio_profile.records.study import PROCESSES
from trio_profile.records.timing import Phase

MOST_ROUNDS = 200
"""A process measures at most so many rounds."""
GENERATION_SHARE = 0.15
"""The share of the time for rounds of generations. Their ratio varies less than that of prefills, and matters less."""
USUAL_RATIO = 2.0
"""The variance of a round / the variance of a process, before a study knows its own. In four sweeps of `pocket` on two
shared cores it was 0.5 to 1.6, which `analysis/times.py` counts as 2."""
SLOWED_PAUSES = 0.05, 1.5, 5.0
"""After rounds that were discarded, the GPU gets time to cool: the first pause in seconds, its growth, the longest
one."""
MOST_DISCARDED = 50
"""If so many rounds of a process were discarded, all further ones count."""

Report = Callable[[str, int, int], None]
"""Called with what is measured now, how much of it is done, and of how much."""


@dataclass(frozen=True)
class Opened:
    """A model in a process that measures a session.

    session: describes the process.
    plan: the study with its model, its input and its cells.
    """

    session: Session
    plan: Plan
    clock: Clock

    @property
    def workload(self) -> Workload:
        """The model with its input."""
        return self.plan.workload


def open_process(
    study: Study, command: str = "", *, keep_refusals: bool = False, plan: Plan | None = None, engine: str = ""
) -> Opened:
    """Load the study's model and describe this process.

    command: the command line that the user gave; empty for that of this process.
    keep_refusals: whether a refused cell becomes a record. Otherwise its error is raised.
    plan: the loaded study, if this process was forked from one that has loaded it.
    engine: the program that started this process on a cluster; empty for none.
    Raises StudyError or a TrioError if the study cannot be measured.
    """
    session, start = open_session(study.device, command), time.perf_counter()
    plan = plan or resolve(study, keep_refusals=keep_refusals)
    clock = clock_for(plan.workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    # The digests come after loading, because a model of the hub may have no files before.
    opened = {"load_seconds": time.perf_counter() - start, "inputs": input_digests(study), "engine": engine}
    return Opened(session.model_copy(update=opened), plan, clock)


# Counts and answers


@dataclass(frozen=True)
class Share:
    """What one of several processes counts and asks.

    number, of: which share of the questions.
    counts: ids of the cells that it counts.
    answers: ids of the cells that answer its questions.
    dense: whether it counts the dense model.
    picture: whether it describes the picture.
    keep_faults: whether a cell whose method raises is recorded as failed. Otherwise the error is raised.
    """

    number: int = 0
    of: int = 1
    counts: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    dense: bool = True
    picture: bool = True
    keep_faults: bool = False


def asks(opened: Opened) -> bool:
    """Return whether the models answer questions, or see drawn pictures."""
    return bool(opened.workload.questions or opened.plan.study.fidelity_inputs)


def count_share(opened: Opened, share: Share, report: Report) -> Iterator[Dense | Picture | Measurement | Answers]:
    """Count some cells, and ask some questions of all. Yield each part as soon as it is there.

    A cell that runs out of memory does not stop the others.
    Raises a TrioError if a method refuses a cell and refusals are not recorded.
    """
    study, workload = opened.plan.study, opened.workload
    rounds.run(workload, opened.clock, "prefill")
    reference = _reference(opened, share, report)
    if share.dense:
        report("dense: counting", 0, 0)
        yield measure_dense(workload, study.seed, opened.clock)
    if share.picture:
        yield picture_of(workload, keep=study.picture)
    if reference is not None:
        yield Answers(numbers=reference.numbers, correct=reference.correct)
    for refusal in opened.plan.refused:
        if refusal.cell.id in share.counts:
            yield refusal
    planned_cells = [planned for planned in opened.plan.cells if planned.cell.id in {*share.counts, *share.answers}]
    for number, planned in enumerate(planned_cells):
        name = f"{planned.cell.variant} at {planned.cell.retention:g}"
        report(f"{name}: counting and asking", number, len(planned_cells))
        yield from _count_cell(opened, share, planned, reference)


def _count_cell(
    opened: Opened, share: Share, planned: PlannedCell, reference: fidelity.Reference | None
) -> Iterator[Measurement | Answers]:
    try:
        if planned.cell.id in share.counts:
            fields = count(opened.workload, planned, opened.plan.study)
            fields["energy"] = power.measure(opened.workload, planned.method)
            yield Measurement(cell=planned.cell, status="counted", **fields)
        if reference is not None:
            answers = fidelity.measure(planned.method, reference) if reference.numbers else None
            yield Answers(cell=planned.cell.id, numbers=reference.numbers, fidelity=answers)
    except TrioError as error:
        if not opened.plan.keep_refusals:
            raise
        yield Measurement(cell=planned.cell, status="refused", reason=str(error))
    except Exception as error:
        yield failure(opened, planned, error, keep_faults=share.keep_faults)


def failure(opened: Opened, planned: PlannedCell, error: Exception, *, keep_faults: bool) -> Measurement:
    """Return the record of a cell that failed. Raises the error if it is not to be recorded.

    If the dense model does not run either, the fault is not the cell's, and the dense model's error is raised.
    """
    record = failure_of(planned.cell, error, keep_faults=keep_faults)
    if keep_faults:
        rounds.run(opened.workload, opened.clock, "prefill")
    return record


def _reference(opened: Opened, share: Share, report: Report) -> fidelity.Reference | None:
    """Return the dense model's answers; None if there are no questions or pictures."""
    if not asks(opened):
        return None
    study = opened.plan.study
    # The user's own picture or prompt is the only input: random pictures would be other questions.
    is_own_input = study.image is not None or study.prompt is not None
    return fidelity.reference(
        opened.workload,
        1 if is_own_input else study.fidelity_inputs or 0,
        study.seed,
        lambda done, total: report(f"dense: {done} of {total} questions", 0, 0),
        share=share.number,
        shares=share.of,
    )


# Rounds


@dataclass(frozen=True)
class Allowance:
    """How long a process may time a study.

    left: seconds that all processes have left.
    whole: seconds of all processes together, from the first one.
    generating: seconds that rounds of generations have taken before.
    processes: how many processes share the time; None for as many as are best.
    ratio: the variance of a round / the variance of a process.
    """

    left: float
    whole: float
    generating: float = 0.0
    processes: int | None = None
    ratio: float = USUAL_RATIO

    def seconds(self, overhead: float, round_seconds: float) -> float:
        """Return for how long this process measures rounds.

        The best number of rounds is √(cost of a process / cost of a round · variance of a round / variance of a
        process) [Kalibera & Jones 2013]. It is fewer if that lets PROCESSES fit into the time, because an interval over
        few processes is wide.

        overhead: seconds until the first round.
        round_seconds: seconds of a round of prefills.
        """
        if self.processes is not None:
            return max(self.whole / self.processes - overhead, 0.0)
        best = round_seconds * max(sqrt(overhead / round_seconds * self.ratio), 1.0)
        share = self.whole / PROCESSES - overhead
        if share >= round_seconds:
            best = min(best, share)
        return max(min(best, self.left - overhead), 0.0)


@dataclass
class Timer:
    """Times the blocks of a study in this process, one round after another.

    blocks: the cells of each block.
    seed: of the orders. Each session has another one.
    keep_faults: as in `Share`.
    """

    opened: Opened
    blocks: Sequence[Sequence[PlannedCell]]
    seed: str
    keep_faults: bool = False
    report: Report = lambda *_: None
    _draw: random.Random = field(init=False)
    _discarded: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._gpu = rounds.gpu_of(self.opened.workload)
        self._cells = [{planned.cell.id: planned for planned in block} for block in self.blocks]

    def measure(self, allowance: Allowance) -> Iterator[Round | Measurement]:
        """Warm up, and measure rounds for as long as this process may. Yield each round, and each cell that fails.

        The first round is one of generations, while those have had less than their share of the time.
        """
        begin = time.perf_counter() - self.opened.session.load_seconds
        with rounds.quiet():
            for cells in self._cells:
                yield from self._warm_up(cells)
            overhead, spent = time.perf_counter() - begin, allowance.whole - allowance.left
            if allowance.generating <= GENERATION_SHARE * (
                spent + allowance.whole / (allowance.processes or PROCESSES)
            ):
                for cells in self._cells:
                    yield from self._round(cells, "generation")
            start = last = time.perf_counter()
            end = start
            for number in range(1, MOST_ROUNDS + 1):
                for cells in self._draw.sample(self._cells, len(self._cells)):
                    yield from self._round(cells, "prefill")
                self.report(f"round {number}", 0, 0)
                now = time.perf_counter()
                if number == 1:
                    end = start + allowance.seconds(overhead, now - start)
                if now + 0.5 * (now - last) > end:
                    return
                last = now

    def _warm_up(self, cells: dict[str, PlannedCell]) -> Iterator[Round | Measurement]:
        """Run the dense model and one cell of each method. What runs for the first time in a process takes longer."""
        first = {planned.cell.method: name for name, planned in reversed(cells.items())}
        yield from self._round({name: cells[name] for name in first.values()}, "warm-up")

    def _round(self, cells: dict[str, PlannedCell], phase: Phase) -> Iterator[Round | Measurement]:
        """Measure one round. A cell that fails is left out of all further ones, and the round is measured again."""
        while cells:
            methods = {name: planned.method for name, planned in cells.items()}
            try:
                found = rounds.measure(self.opened.workload, methods, phase, self._draw, self.opened.clock, self._gpu)
            except rounds.CellFailed as failed:
                error = failed.__cause__
                assert isinstance(error, Exception)
                yield failure(self.opened, cells.pop(failed.cell), error, keep_faults=self.keep_faults)
                for block in self._cells:
                    block.pop(failed.cell, None)
                continue
            if not found.discarded or self._discarded >= MOST_DISCARDED:
                yield found.model_copy(update={"discarded": False})
                return
            first, growth, longest = SLOWED_PAUSES
            time.sleep(min(first * growth**self._discarded, longest))
            self._discarded += 1
            yield found


def blocks_of(plan: Plan, cells: Collection[str]) -> list[list[PlannedCell]]:
    """Return the planned cells of each block of a study. cells: ids of those that are timed."""
    planned = {one.cell.id: one for one in plan.cells if one.cell.id in cells}
    blocks = [[planned[cell.id] for cell in block if cell.id in planned] for block in plan.study.blocks().values()]
    return [block for block in blocks if block]
