"""One session: measure a study's cells in this process. Each record is in the store before the next cell begins."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from trio_core.errors import TrioError
from trio_profile.errors import StoreError
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.picture import picture_of
from trio_profile.inputs.questions import hash_questions
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import fidelity, latency, power
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Dense, Measurement, Picture, Study, TimingLine
from trio_profile.records.store import Store
from trio_profile.studies import sessions
from trio_profile.studies.counting import count, failure_of, measure_dense
from trio_profile.studies.duration import Pace, import_seconds
from trio_profile.studies.kinds import find
from trio_profile.studies.plan import Plan, PlannedCell, resolve
from trio_profile.studies.steps import Parts, Steps

COUNT_OVER_GENERATION = 8
"""The estimated time of all exact counts / one generation. Only the progress bar uses it."""


def measure(
    study: Study,
    directory: Path,
    watch: Watch = ignore,
    *,
    command: str = "",
    skip: frozenset[str] = frozenset(),
    clock: Clock | None = None,
) -> Contents:
    """Open a session in this process, and measure each unfinished cell in it. Return the contents of the store.

    A study of one process counts and times in it. Of several processes the first one only counts, and the others time.
    Cells of one block, such as all methods at one retention, are timed in turn with the same dense runs. A cell that
    runs out of memory is recorded as failed. Whether a refused cell is recorded too, or raises, is a fact of the kind.

    watch: called with each step.
    command: the command line that the user gave; empty for that of this process.
    skip: ids of cells that are not measured.
    clock: clock of the device; None for the default clock.
    Raises StudyError, StoreError or a TrioError before anything is measured.
    """
    store, session = Store(directory), open_session(study.device, command)
    earlier = store.require(study, session.environment, input_digests(study)) if store.exists() else None
    watch(Step(f"loading {study.model}"))
    imports, start = import_seconds(), time.perf_counter()
    plan = resolve(study, keep_refusals=find(study.verb).keep_refusals)
    load_seconds = imports + time.perf_counter() - start
    processes = sessions.choose_processes(study, load_seconds, earlier)
    # The digests come after loading, because a model of the hub may have no files before.
    opened = {"load_seconds": load_seconds, "processes": processes, "inputs": input_digests(study)}
    contents = store.open(study, session.model_copy(update=opened))
    todo = sessions.unfinished(study, contents, skip)

    def save(line: Dense | Picture | Measurement | TimingLine) -> None:
        contents.add(store.append(line))

    for refusal in plan.refused:
        if refusal.cell in todo:
            save(refusal)
    cells = [planned for planned in plan.cells if planned.cell in todo]
    setup = _prepare(plan, cells, contents, clock, watch)
    if contents.dense is None:
        watch(Step("dense: counting and timing"))
        save(measure_dense(plan.workload, study.seed, setup.clock, reference=setup.reference))
    if contents.picture is None and any(planned.cell.id not in setup.counted for planned in cells):
        save(picture_of(plan.workload, keep=study.picture))
    parts, sampling = setup.parts(cells), setup.sampling(cells)
    followers = sessions.sessions_left(study, contents) - 1
    later = followers * (load_seconds + sum(sampling.values()))
    steps = Steps(watch, cells, parts, later)
    settled_ms = None
    for block in _blocks(study, cells):
        for line in measure_block(setup, block, steps, settled_ms):
            save(line)
            if isinstance(line, TimingLine):
                settled_ms = median(pair.dense_prefill_ms for pair in line.pairs)
    steps.end()
    return contents


@dataclass(frozen=True)
class Setup:
    """The things that the measurement of each cell needs.

    session: id of the session.
    seed: of the order of runs. Each session has another one.
    counted: ids of the cells whose exact quantities are known.
    only_counts: whether other processes time the cells.
    seconds: for how long each cell is sampled, by its id.
    least_pairs: the least number of pairs of each cell.
    pace: the seconds that the dense model needs.
    reference: the dense model's answers; None if there are no questions, or if every cell has answered them.
    keep_faults: whether a cell whose method raises is recorded as failed. Otherwise the error is raised.
    """

    study: Study
    workload: Workload
    clock: Clock
    session: str
    seed: int
    counted: frozenset[str]
    only_counts: bool
    seconds: dict[str, float]
    least_pairs: int
    pace: Pace
    reference: fidelity.Reference | None
    keep_faults: bool = False

    def parts(self, cells: Sequence[PlannedCell]) -> dict[str, Parts]:
        """Return the expected seconds of each cell in this session by part: its counts, its questions, its pairs."""
        found: dict[str, Parts] = {}
        for planned in cells:
            counts, questions, sampling = self._parts(planned)
            is_counted = planned.cell.id in self.counted
            found[planned.cell.id] = (
                0.0 if is_counted else counts,
                0.0 if is_counted else questions,
                0.0 if self.only_counts else sampling,
            )
        return found

    def sampling(self, cells: Sequence[PlannedCell]) -> dict[str, float]:
        """Return the expected seconds of each cell in a session that only times."""
        return {planned.cell.id: self._parts(planned)[2] for planned in cells}

    def _parts(self, planned: PlannedCell) -> Parts:
        return self.pace.parts(planned, self.workload.shape, self.seconds[planned.cell.id], self.least_pairs)


def measure_block(
    setup: Setup, block: Sequence[PlannedCell], steps: Steps, settled_ms: float | None = None
) -> Iterator[Measurement | TimingLine]:
    """Measure the cells of one block. Yield each record as soon as it is finished.

    A cell that runs out of memory, or that its method refuses, does not stop the others.

    settled_ms: the dense prefill of an earlier block in this process; None if this is the first.
    Raises a TrioError if a method refuses a cell and refusals are not recorded. Any other error of a method is raised
    too, unless the setup keeps faults.
    """
    counted = [planned for planned in block if planned.cell.id in setup.counted]
    for planned in block:
        if planned in counted:
            continue
        try:
            yield _count(setup, planned, steps)
            counted.append(planned)
        except Exception as error:
            steps.finish(planned)
            if isinstance(error, TrioError) and find(setup.study.verb).keep_refusals:
                yield Measurement(cell=planned.cell, status="refused", reason=str(error))
            else:
                yield _failure(setup, planned, error)
    if setup.only_counts:
        for planned in counted:
            steps.finish(planned)
    elif counted:
        yield from _time(setup, counted, steps, settled_ms)


def _count(setup: Setup, planned: PlannedCell, steps: Steps) -> Measurement:
    """Return the exact quantities of a cell, and its agreement with the dense model's answers."""
    steps.begin(planned, "counting")
    fields = count(setup.workload, planned, setup.study)
    fields["energy"] = power.measure(setup.workload, planned.method)
    if setup.reference is not None:
        steps.finish_counts(planned)

        def report(done: int, total: int) -> None:
            steps.show_answers(planned, done, total)

        fields["fidelity"] = fidelity.measure(planned.method, setup.reference, report)
    return Measurement(cell=planned.cell, status="counted", session=setup.session, **fields)


def _time(
    setup: Setup, cells: Sequence[PlannedCell], steps: Steps, settled_ms: float | None
) -> Iterator[Measurement | TimingLine]:
    """Time the cells of one block in turn. Yield each record as soon as it is finished."""
    study = setup.study
    finished = set[int]()
    try:
        for index, times in latency.measure(
            setup.workload,
            [planned.method for planned in cells],
            precision=study.precision,
            seconds=[setup.seconds[planned.cell.id] for planned in cells],
            seed=setup.seed,
            least=setup.least_pairs,
            settled_ms=settled_ms,
            clock=setup.clock,
            report=lambda pairs: steps.show_pairs(cells, pairs),
        ):
            finished.add(index)
            steps.finish(cells[index])
            yield TimingLine(
                cell=cells[index].cell,
                session=setup.session,
                seconds=times.seconds,
                warmups=times.warmups,
                discarded=times.discarded,
                slowed_by=times.slowed_by,
                strangers=times.strangers,
                pairs=times.pairs,
                stopped=times.stopped,
            )
    except Exception as error:
        # It is unknown which of several cells ran out of memory, so each is measured alone.
        left = [planned for index, planned in enumerate(cells) if index not in finished]
        failure = _failure(setup, left[0], error)
        if len(left) == 1:
            steps.finish(left[0])
            yield failure
            return
        for planned in left:
            yield from _time(setup, [planned], steps, settled_ms)


def _failure(setup: Setup, planned: PlannedCell, error: Exception) -> Measurement:
    """Return the record of a cell that failed. Raises the error if it is not to be recorded.

    If the dense model does not run either, the fault is not the cell's, and the dense model's error is raised.
    """
    failure = failure_of(planned.cell, error, keep_faults=setup.keep_faults)
    if setup.keep_faults:
        latency.run(setup.workload, setup.clock)
    return failure


def _blocks(study: Study, cells: Sequence[PlannedCell]) -> Iterator[list[PlannedCell]]:
    """Yield the blocks of cells that are timed in turn: those of one retention and one ablation."""

    def key(planned: PlannedCell) -> tuple[float, int]:
        return study.block(planned.cell)

    for _, block in groupby(sorted(cells, key=key), key):
        yield list(block)


@dataclass(frozen=True)
class Warm:
    """A model that has run, in a process that may measure now.

    reference: the dense model's answers; None if there are no questions, or if this process asks none.
    """

    plan: Plan
    clock: Clock
    pace: Pace
    reference: fidelity.Reference | None

    def setup(self, **fields: Any) -> Setup:
        """Return the setup of some cells. fields: those of `Setup` that are not known yet."""
        return Setup(
            study=self.plan.study,
            workload=self.plan.workload,
            clock=self.clock,
            pace=self.pace,
            reference=self.reference,
            **fields,
        )


def warm_up(plan: Plan, clock: Clock | None, watch: Watch, *, asks: bool) -> Warm:
    """Run the model twice. asks: whether the dense model also answers all questions."""
    study, workload = plan.study, plan.workload
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    watch(Step("warming up"))
    latency.run(workload, clock)
    generation = _seconds(lambda: latency.run(workload, clock))
    start = time.perf_counter()
    reference = _reference(study, workload, watch) if asks else None
    questions = time.perf_counter() - start if asks else 0.0
    pace = Pace(generation=generation, count=COUNT_OVER_GENERATION * generation, questions=questions)
    return Warm(plan, clock, pace, reference)


def _prepare(plan: Plan, cells: Sequence[PlannedCell], contents: Contents, clock: Clock | None, watch: Watch) -> Setup:
    """Warm the model up, and ask the dense model all questions if a cell has not answered them yet.

    cells: those that this session measures.
    """
    study = plan.study
    counted = frozenset(planned.cell.id for planned in cells if sessions.is_counted(contents, planned.cell))
    asks = contents.dense is None or any(planned.cell.id not in counted for planned in cells)
    if asks:
        _require_same_questions(study, plan.workload, contents)
    return warm_up(plan, clock, watch, asks=asks).setup(
        session=contents.sessions[-1].id,
        seed=study.seed + len(contents.sessions) - 1,
        counted=counted,
        only_counts=sessions.only_counts(study, contents, [planned.cell for planned in cells]),
        seconds=sessions.seconds_by_cell(study, contents, [planned.cell for planned in cells]),
        least_pairs=sessions.least_pairs(contents.sessions[-1].processes),
    )


def _require_same_questions(study: Study, workload: Workload, contents: Contents) -> None:
    """Raise StoreError if the store holds answers to other questions. A session that asks nothing need not know."""
    old_hash = contents.dense.questions if contents.dense is not None else ""
    if old_hash and old_hash != hash_questions(workload.questions):
        raise StoreError(
            f"the study holds answers to other questions than {study.questions or study.model} has now; choose another "
            "--out"
        )


def _reference(study: Study, workload: Workload, watch: Watch) -> fidelity.Reference | None:
    """Return the dense model's answers; None if there are no questions or pictures."""
    if not workload.questions and not study.fidelity_inputs:
        return None
    # The user's own picture or prompt is the only input: random pictures would be other questions.
    is_own_input = study.image is not None or study.prompt is not None
    pictures = 1 if is_own_input else study.fidelity_inputs or 0
    return fidelity.reference(
        workload, pictures, study.seed, lambda done, total: watch(Step(f"dense: {done} of {total} questions"))
    )


def _seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
