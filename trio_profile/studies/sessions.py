"""Run a study in several fresh processes, one after another.

Two processes that run the same program differ by more than the samples of one of them show. So a cell is timed again
in each process, and its interval covers the spread between them. Another process counts and asks questions before: a
process that has done so is slower by some percent, so it would be unlike the others. Each process opens a session of
the study.
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from trio_profile import units
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Cell, Study
from trio_profile.records.store import Store
from trio_profile.records.study import PROCESSES
from trio_profile.records.workers import is_for_workers
from trio_profile.stats.stopping import LEAST_SAMPLES
from trio_profile.studies import fresh

CHEAP_SECONDS = 20.0
"""Loading is cheap up to this time. A study of a model that loads more slowly runs in one process by default."""


def run(study: Study, directory: Path, watch: Watch = ignore) -> Contents:
    """Measure the cells that the directory does not hold yet. Return the contents of its store.

    A study of one process is measured in this one. Otherwise each session is a fresh process, because this process
    would differ from them.

    watch: called with each step.
    Raises the errors of `measuring.measure`.
    """
    store = Store(directory)
    if store.exists() and not unfinished(study, store.read()):
        from trio_profile.inputs.digest import input_digests
        from trio_profile.inputs.environment import collect

        return store.require(study, collect(study.device, fresh=uses_fresh_processes(study)), input_digests(study))
    if is_for_workers(directory):
        raise StoreError(f"workers measure the study in {directory}: run `trio-profile work {directory}`")
    if not uses_fresh_processes(study):
        from trio_profile.studies.measuring import measure

        return measure(study, directory, watch)
    fresh.require_known_methods(study)
    return _run_processes(study, directory, watch)


def uses_fresh_processes(study: Study) -> bool:
    """Return whether fresh processes measure a study. This process does so if the user asks for one process.

    A model that loads slowly is measured in one process too, but only a fresh process finds that out.
    """
    return (study.processes or PROCESSES) > 1


def unfinished(study: Study, contents: Contents, skip: frozenset[str] = frozenset()) -> list[Cell]:
    """Return the cells that are not measured yet in as many sessions as the study has processes.

    A cell that failed is measured again.

    skip: ids of cells that are not measured again.
    """
    sessions = processes_of(study, contents)
    found: list[Cell] = []
    for cell in study.cells():
        seen = contents.cells.get(cell.id)
        enough = seen is not None and (seen.status == "refused" or len(seen.timings) >= sessions)
        if not enough and cell.id not in skip:
            found.append(cell)
    return found


def processes_of(study: Study, contents: Contents) -> int:
    """Return the number of processes of a study: its own, or the number that its first session chose."""
    if study.processes is not None:
        return study.processes
    return contents.sessions[0].processes if contents.sessions else PROCESSES


def choose_processes(study: Study, load_seconds: float, earlier: Contents | None = None) -> int:
    """Return the number of processes of a study: that of its first session, or a new one if this is the first.

    load_seconds: time that a process needs to load.
    earlier: contents of the store before this session; None without a store.
    """
    if earlier is not None and earlier.sessions:
        return processes_of(study, earlier)
    return study.processes or (PROCESSES if load_seconds <= CHEAP_SECONDS else 1)


def is_counted(contents: Contents, cell: Cell) -> bool:
    """Return whether the exact quantities of a cell are in the store."""
    seen = contents.cells.get(cell.id)
    return seen is not None and seen.status in ("counted", "done")


def only_counts(study: Study, contents: Contents, cells: Sequence[Cell]) -> bool:
    """Return whether a session only counts: it has cells to count, and other processes time them.

    cells: those that the session measures.
    """
    return processes_of(study, contents) > 1 and not all(is_counted(contents, cell) for cell in cells)


def sessions_left(study: Study, contents: Contents) -> int:
    """Return how many sessions a study still needs, the one that runs now included."""
    todo = unfinished(study, contents)
    timed = [len(contents.cells[cell.id].timings) if cell.id in contents.cells else 0 for cell in todo]
    left = processes_of(study, contents) - min(timed, default=0)
    return max(left, 1) + only_counts(study, contents, todo)


def least_pairs(processes: int) -> int:
    """Return the least number of pairs of a cell in one session. All sessions together have enough for an interval."""
    return max(ceil(LEAST_SAMPLES / processes), 2)


def seconds_by_cell(study: Study, contents: Contents, cells: list[Cell]) -> dict[str, float]:
    """Return the seconds for which a session samples each cell, by the id of the cell.

    The first session gives all cells the same time. Later sessions divide what is left of the study's time: a cell
    whose times spread more gets more, at most four times as much as another one.

    cells: those that the session measures.
    """
    from trio_profile.analysis.doubt import prefill_speedups
    from trio_profile.stats.intervals import relative_half_width

    sessions = processes_of(study, contents)
    seen = {cell.id: contents.cells[cell.id] for cell in cells if cell.id in contents.cells}
    timed = {name: cell for name, cell in seen.items() if cell.timings}
    if len(timed) < len(cells):
        return {cell.id: study.cell_seconds / sessions for cell in cells}
    spent = sum(timing.seconds for cell in timed.values() for timing in cell.timings)
    left = max(sessions - min(len(cell.timings) for cell in timed.values()), 1)
    share = max(study.cell_seconds * len(cells) - spent, 0.0) / left
    widths = {name: relative_half_width(prefill_speedups(cell)) for name, cell in timed.items()}
    middle = sum(widths.values()) / len(widths) or 1.0
    weights = {name: min(max(width / middle, 0.5), 2.0) for name, width in widths.items()}
    return {name: share * weight / sum(weights.values()) for name, weight in weights.items()}


def _run_processes(study: Study, directory: Path, watch: Watch) -> Contents:
    """Start one process after another until every cell is measured often enough."""
    store, command = Store(directory), command_line()
    contents = store.read() if store.exists() else None
    skip, watch = frozenset[str](), _of_all_processes(watch)
    while contents is None or unfinished(study, contents, skip):
        number = 1 if contents is None else len(contents.sessions) + 1
        cells = {} if contents is None else contents.cells
        fresh.measure(study, directory, command, skip, _numbered(watch, number))
        contents = store.read()
        # A cell that failed in this run is not tried again by the next process.
        skip = frozenset(name for name, cell in contents.cells.items() if cell.reason is not None)
        if contents.cells == cells and unfinished(study, contents, skip):
            raise MeasurementError(f"process {number} measured nothing in {directory}: measure again")
    left = unfinished(study, contents)
    watch(Step(f"{units.number_of(len(left), 'cell')} failed" if left else "all cells are measured"))
    return contents


def _numbered(watch: Watch, number: int) -> Watch:
    """Return a watch that says the number of the process."""
    return lambda step: watch(Step(f"process {number}: {step.text}", step.done, step.total))


def _of_all_processes(watch: Watch) -> Watch:
    """Return a watch that joins the processes to one progress.

    Each process reports the work that is left: its own and that of later processes. Done is the first total minus the
    work left.
    """
    total = done = 0.0

    def joined(step: Step) -> None:
        nonlocal total, done
        total = total or step.total
        if step.total:
            done = max(done, total - (step.total - step.done))
        watch(Step(step.text, done if step.total else 0.0, total if step.total else 0.0))

    return joined
