"""Measure the cells of a study. Each record is in the store before the next cell begins."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from trio_core.errors import TrioError
from trio_profile import units
from trio_profile.errors import StoreError
from trio_profile.inputs.environment import collect
from trio_profile.inputs.questions import digest
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import fidelity, latency, power
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.schema import Cell, Measurement, Study
from trio_profile.records.store import Contents, Store
from trio_profile.studies.counting import Counts, count, measure_dense, memory_failure
from trio_profile.studies.duration import Pace
from trio_profile.studies.kinds import find
from trio_profile.studies.plan import PlannedCell, resolve

COUNT_OVER_GENERATION = 8
"""The estimated time of all exact counts / one generation. Only the progress bar uses it."""


def run(
    study: Study,
    directory: Path,
    watch: Watch = ignore,
    *,
    clock: Clock | None = None,
) -> Contents:
    """Measure the cells that the directory does not hold yet. Return the contents of its store.

    Cells of one block, such as all methods at one retention, are timed in turn with the same dense runs. A cell that
    runs out of memory is recorded as failed. Whether a refused cell is recorded too, or raises, is a fact of the kind.

    watch: called with each step.
    clock: clock of the device; None for the default clock.
    Raises StudyError, StoreError or a TrioError before anything is measured.
    """
    environment = collect(study.device)
    store = Store(directory)
    if store.exists():
        contents = store.open(study, environment)
        if not unfinished(study, contents):
            return contents
    watch(Step(f"loading {study.model}"))
    keep_refusals = find(study.verb).keep_refusals
    plan = resolve(study, keep_refusals=keep_refusals)
    workload = plan.workload
    contents = store.open(study, environment)
    questions_hash = digest(workload.questions) if study.questions is not None else ""
    if contents.dense is not None and contents.dense.questions != questions_hash:
        raise StoreError(
            f"{directory} holds answers to other questions than {study.questions} has now; choose another --out"
        )
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)

    def save(measurement: Measurement) -> None:
        store.append(measurement)
        contents.measurements = [m for m in contents.measurements if m.cell != measurement.cell] + [measurement]

    todo = unfinished(study, contents)
    for refusal in plan.refused:
        if refusal.cell in todo:
            save(refusal)
    pace = _warm_up(workload, clock, watch)
    reference, pace = _reference(workload, study, watch, pace)
    if contents.dense is None:
        watch(Step("dense: counting and timing"))
        dense = measure_dense(workload, study.seed, clock, reference=reference)
        contents.dense = dense.model_copy(update={"questions": questions_hash})
        store.append(contents.dense)
    cells = [planned for planned in plan.cells if planned.cell in todo]
    progress = Progress(watch, pace, study, workload, cells)
    setup = Setup(study, workload, clock, reference, keep_refusals)
    for block in _blocks(study, cells):
        for measurement in measure_block(setup, block, progress):
            save(measurement)
    watch(Step("all cells are measured", progress.total, progress.total))
    return contents


def unfinished(study: Study, contents: Contents) -> list[Cell]:
    """Return the cells that are not measured yet. A cell that failed is measured again."""
    finished = {m.cell.id for m in contents.measurements if m.status in ("done", "refused")}
    return [cell for cell in study.cells() if cell.id not in finished]


@dataclass(frozen=True)
class Setup:
    """The things that the measurement of each cell needs.

    reference: the dense model's answers; None if there are no questions.
    keep_refusals: whether a refused cell is recorded. Otherwise its error is raised.
    """

    study: Study
    workload: Workload
    clock: Clock
    reference: fidelity.Reference | None = None
    keep_refusals: bool = False


def measure_block(setup: Setup, block: Sequence[PlannedCell], progress: "Progress") -> Iterator[Measurement]:
    """Measure the cells of one block. Yield each record as soon as it is finished.

    A cell that runs out of memory, or that its method refuses, does not stop the others.
    Raises a TrioError if a method refuses a cell and refusals are not recorded.
    """
    counted: list[tuple[PlannedCell, Counts]] = []
    for planned in block:
        # Counts come before times, because they run everything once. The CPU's allocator is a quarter slower until it
        # has freed some large blocks. Without this, a resumed sweep would mix slow and fast times.
        try:
            counted.append((planned, _count(setup, planned, progress)))
        except TrioError as error:
            if not setup.keep_refusals:
                raise
            progress.finish(planned)
            yield Measurement(cell=planned.cell, status="refused", reason=str(error))
        except (MemoryError, RuntimeError) as error:
            progress.finish(planned)
            yield memory_failure(planned.cell, error)
    if counted:
        yield from _time(setup, counted, progress)


def _count(setup: Setup, planned: PlannedCell, progress: "Progress") -> Counts:
    """Return the exact quantities of a cell, and its agreement with the dense model's answers."""
    progress.begin(planned, "counting")
    fields = count(setup.workload, planned, setup.study)
    if setup.reference is not None:
        progress.finish_counts(planned)

        def report(done: int, total: int) -> None:
            progress.show_answers(planned, done, total)

        fields["fidelity"] = fidelity.measure(planned.method, setup.reference, report)
    return fields


def _time(setup: Setup, counted: Sequence[tuple[PlannedCell, Counts]], progress: "Progress") -> Iterator[Measurement]:
    """Time the cells of one block in turn. Yield each record as soon as it is finished.

    counted: the cells with their exact quantities.
    """
    study = setup.study
    finished = set[int]()
    try:
        for index, times in latency.measure(
            setup.workload,
            [planned.method for planned, _ in counted],
            precision=study.precision,
            seconds=study.cell_seconds,
            seed=study.seed,
            clock=setup.clock,
            report=lambda pairs: progress.show_pairs([planned for planned, _ in counted], pairs),
        ):
            planned, fields = counted[index]
            energy = power.measure(setup.workload, planned.method)
            finished.add(index)
            progress.finish(planned)
            yield Measurement(
                cell=planned.cell,
                status="done",
                **fields,
                energy=energy,
                warmups=times.warmups,
                discarded=times.discarded,
                slowed_by=times.slowed_by,
                strangers=times.strangers,
                pairs=times.pairs,
                stopped=times.stopped,
            )
    except (MemoryError, RuntimeError) as error:
        # It is unknown which of several cells ran out of memory, so each is measured alone.
        left = [planned for index, (planned, _) in enumerate(counted) if index not in finished]
        failure = memory_failure(left[0].cell, error)
        if len(left) == 1:
            progress.finish(left[0])
            yield failure
            return
        for planned in left:
            yield from measure_block(setup, [planned], progress)


def _blocks(study: Study, cells: Sequence[PlannedCell]) -> Iterator[list[PlannedCell]]:
    """Yield the blocks of cells that are timed in turn: those of one retention and one ablation."""

    def key(planned: PlannedCell) -> tuple[float, int]:
        return study.block(planned.cell)

    for _, block in groupby(sorted(cells, key=key), key):
        yield list(block)


def _warm_up(workload: Workload, clock: Clock, watch: Watch) -> Pace:
    """Run the model twice. Return the seconds that it needs, with an estimate for the counts."""
    watch(Step("warming up"))
    latency.run(workload, clock)
    start = time.perf_counter()
    latency.run(workload, clock)
    generation = time.perf_counter() - start
    return Pace(generation=generation, count=COUNT_OVER_GENERATION * generation)


def _reference(workload: Workload, study: Study, watch: Watch, pace: Pace) -> tuple[fidelity.Reference | None, Pace]:
    """Return the dense model's answers (None if there are no questions or pictures), and the pace with their time."""
    if not workload.questions and not study.fidelity_inputs:
        return None, pace
    # The user's own picture or prompt is the only input: random pictures would be other questions.
    is_own_input = study.image is not None or study.prompt is not None
    pictures = 1 if is_own_input else study.fidelity_inputs or 0
    start = time.perf_counter()
    reference = fidelity.reference(
        workload, pictures, study.seed, lambda done, total: watch(Step(f"dense: {done} of {total} questions"))
    )
    return reference, replace(pace, questions=time.perf_counter() - start)


class Progress:
    """The progress of a study's cells, in expected seconds.

    watch: called with each step.
    pace: the seconds that the dense model needs.
    cells: the cells that are not measured yet.
    """

    def __init__(
        self, watch: Watch, pace: Pace, study: Study, workload: Workload, cells: Sequence[PlannedCell]
    ) -> None:
        self.watch, self.cell_seconds = watch, study.cell_seconds
        self.parts = {planned.cell.id: pace.parts(planned, study, workload.shape) for planned in cells}
        self.number = {planned.cell.id: number for number, planned in enumerate(cells, start=1)}
        self.done = dict.fromkeys(self.parts, 0.0)
        self.total = sum(sum(parts) for parts in self.parts.values())

    def begin(self, planned: PlannedCell, what: str) -> None:
        """Show that a cell begins. what: the work that begins."""
        self._show(f"{self._name(planned)}: {what}")

    def finish_counts(self, planned: PlannedCell) -> None:
        """Note that the counts of a cell are finished."""
        self.done[planned.cell.id] = self.parts[planned.cell.id][0]

    def show_answers(self, planned: PlannedCell, done: int, total: int) -> None:
        """Show how many questions of a cell are answered."""
        counts, questions, _ = self.parts[planned.cell.id]
        self.done[planned.cell.id] = counts + questions * done / total
        self._show(f"{self._name(planned)}: {done} of {total} questions")

    def show_pairs(self, block: Sequence[PlannedCell], pairs: dict[int, tuple[int, float]]) -> None:
        """Show how many pairs of a block are measured.

        pairs: by position in the block, the number of pairs and their measured seconds.
        """
        for index, (_, seconds) in pairs.items():
            counts, questions, sampling = self.parts[block[index].cell.id]
            self.done[block[index].cell.id] = counts + questions + sampling * min(seconds / self.cell_seconds, 1.0)
        most = max(count for count, _ in pairs.values())
        names = ", ".join(block[index].cell.variant for index in list(pairs)[:3])
        more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        self._show(f"{names}{more} at {units.plain(block[0].cell.retention)}: pair {most}")

    def finish(self, planned: PlannedCell) -> None:
        """Note that a cell is finished, or that it failed."""
        self.done[planned.cell.id] = sum(self.parts[planned.cell.id])

    def _name(self, planned: PlannedCell) -> str:
        number, cell = self.number[planned.cell.id], planned.cell
        return f"cell {number} of {len(self.parts)}, {cell.variant} at {units.plain(cell.retention)}"

    def _show(self, text: str) -> None:
        self.watch(Step(text, sum(self.done.values()), self.total))
