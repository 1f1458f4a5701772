"""One process of a worker: it loads the model once, then claims and measures one run after another.

It ends when nothing is left that it may measure. A process that counts and asks questions times nothing, and no process
times a block twice: both would make its times unlike those of the other processes.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trio_profile.inputs import ray_cost
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.picture import picture_of
from trio_profile.progress import Step, Watch
from trio_profile.records.differences import require_same_environment, require_same_inputs
from trio_profile.records.leases import LEASES, Leases
from trio_profile.records.run import DENSE, Run
from trio_profile.records.schema import Measurement, Session, Study, TimingLine
from trio_profile.records.workers import FIRST, Measured, WorkerFile, agree, first_session
from trio_profile.studies import sessions
from trio_profile.studies.board import Board, Claim, Phase
from trio_profile.studies.counting import measure_dense
from trio_profile.studies.duration import import_seconds
from trio_profile.studies.kinds import find
from trio_profile.studies.measuring import Warm, measure_block, warm_up
from trio_profile.studies.plan import resolve
from trio_profile.studies.steps import Steps

Say = Callable[[dict[str, Any]], None]
"""Tells the worker what its process does: which run it claimed, and which one it finished."""

_UNLIKE = f"measure on that kind of machine; if it was the wrong one, remove {LEASES}/{FIRST}"
"""The way out for a machine that is unlike that of the first session."""


@dataclass(frozen=True)
class Asked:
    """What a worker asks of one of its processes.

    study, directory: what is measured, and where it is kept.
    worker: name of the worker.
    phase: whether the process counts or times.
    processes: how many processes time each cell.
    lease_seconds: how long a lease lasts without being renewed.
    most_attempts: after so many attempts that failed, a run is given up.
    failed_here: names of runs that failed on this worker. They are claimed if nothing else is free.
    command: the command line that the user gave.
    engine: the program that started the worker, such as `ray 2.60.0`.
    """

    study: Study
    directory: Path
    worker: str
    phase: Phase
    processes: int
    lease_seconds: float
    most_attempts: int
    failed_here: tuple[str, ...] = ()
    command: str = ""
    engine: str = ""

    def board(self) -> Board:
        """Return the runs of the study, as this worker sees them."""
        leases = Leases(self.directory, self.worker, self.lease_seconds)
        return Board(self.study, self.directory, leases, self.processes, self.most_attempts)


def work(asked: Asked, watch: Watch, say: Say) -> None:
    """Open a session, and measure every run that this process can claim.

    Raises StoreError if this machine is unlike that of the first session, or if a file that is measured has changed.
    Any error of a run is raised too; the run's lease is then still held.
    """
    study, board = asked.study, asked.board()
    session, warm = _open(asked, watch)
    file = WorkerFile(asked.directory, asked.worker)
    file.open(study, session)
    timed, settled_ms = set[str](), None
    while (claim := board.claim(asked.phase, timed, asked.failed_here)) is not None:
        say({"claimed": str(claim.key), "attempt": claim.attempt})
        start = time.perf_counter()
        lines = list(_lines(asked, claim, warm, board, session.id, settled_ms, watch))
        ended = Run(
            block=claim.key.block,
            number=claim.key.number,
            attempt=claim.attempt,
            worker=asked.worker,
            session=session.id,
            seconds=time.perf_counter() - start,
            failed=claim.given_up,
        )
        file.append(lines, ended)
        board.leases.give_back(str(claim.key), claim.attempt)
        say({"finished": str(claim.key), "was_measured": claim.given_up is None})
        if claim.key.number > 0:
            timed.add(claim.key.block)
        if claim.is_last and any(isinstance(line, Measurement) and line.status == "failed" for line in lines):
            return  # what raised may have harmed this process
        for line in lines:
            if isinstance(line, TimingLine):
                settled_ms = median(pair.dense_prefill_ms for pair in line.pairs)


def _open(asked: Asked, watch: Watch) -> tuple[Session, Warm]:
    """Load and warm up the model. Return the session, which is not written yet, and the model."""
    study = asked.study
    session, start, of_ray = open_session(study.device, asked.command), time.perf_counter(), ray_cost.cpu_seconds()
    if (first := first_session(asked.directory)) is not None:
        require_same_environment([first], session.environment, asked.directory, _UNLIKE)
    watch(Step(f"loading {study.model}"))
    plan = resolve(study, keep_refusals=find(study.verb).keep_refusals)
    seconds, of_ray_now = time.perf_counter() - start, ray_cost.cpu_seconds()
    # The digests come after loading, because a model of the hub may have no files before.
    opened = {"processes": asked.processes, "inputs": input_digests(study), "engine": asked.engine}
    opened["load_seconds"] = import_seconds() + seconds
    if asked.engine:
        opened["engine_cores"] = ray_cost.cores(of_ray, of_ray_now, seconds)
    session = session.model_copy(update=opened)
    first = agree(asked.directory, session)
    require_same_environment([first], session.environment, asked.directory, _UNLIKE)
    require_same_inputs(study, [first], session.inputs, asked.directory)
    asks = asked.phase == "count" or asked.processes == 1
    return session, warm_up(plan, None, watch, asks=asks)


def _lines(
    asked: Asked, claim: Claim, warm: Warm, board: Board, session: str, settled_ms: float | None, watch: Watch
) -> Iterator[Measured]:
    """Yield the lines of a run: what was measured, or that the run was given up."""
    study, plan, key = asked.study, warm.plan, claim.key
    if key.block == DENSE:
        if claim.given_up is None:
            watch(Step("dense: counting and timing"))
            yield measure_dense(plan.workload, study.seed, warm.clock, reference=warm.reference)
            yield picture_of(plan.workload, keep=study.picture)
        return
    only_times = key.number > 0 and asked.processes > 1
    block = {cell.id for cell in board.cells[key.block]}
    counted = frozenset(block & board.counted) if only_times else frozenset[str]()
    if not only_times:
        yield from (refused for refused in plan.refused if refused.cell.id in block)
    if claim.given_up is not None:
        abandoned = [planned.cell for planned in plan.cells if planned.cell.id in (counted or block)]
        yield from (Measurement(cell=cell, status="failed", reason=claim.given_up[:300]) for cell in abandoned)
        return
    cells = [planned for planned in plan.cells if planned.cell.id in (counted if only_times else block)]
    setup = warm.setup(
        session=session,
        seed=study.seed + key.number,
        counted=counted,
        only_counts=key.number == 0,
        seconds=dict.fromkeys((planned.cell.id for planned in cells), study.cell_seconds / asked.processes),
        least_pairs=sessions.least_pairs(asked.processes),
        keep_faults=claim.is_last,
    )
    steps = Steps(watch, cells, setup.parts(cells))
    yield from measure_block(setup, cells, steps, settled_ms)
