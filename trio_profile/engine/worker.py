"""One process of a worker: it claims and measures one run after another.

It ends when nothing is left that it may measure. A process that counts and asks questions times nothing, and no process
times a block twice: both would make its times unlike those of the other processes.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

from trio_profile.engine.board import Assignment, Board, Claim, board_of
from trio_profile.engine.measuring import (
    Allowance,
    Opened,
    Report,
    Share,
    Timer,
    asks,
    blocks_of,
    count_share,
    open_process,
)
from trio_profile.engine.processes import Say
from trio_profile.engine.shares import Parts
from trio_profile.records.differences import require_same_environment, require_same_inputs
from trio_profile.records.leases import LEASES
from trio_profile.records.run import DENSE, Run
from trio_profile.records.schema import Measurement
from trio_profile.records.workers import FIRST, Measured, WorkerFile, agree, first_session

_UNLIKE = f"measure on that kind of machine; if it was the wrong one, remove {LEASES}/{FIRST}"
"""The way out for a machine that is unlike that of the first session."""


def work(assignment: Assignment, report: Report, say: Say) -> None:
    """Open a session, and measure every run that this process can claim.

    say: tells the worker which run is claimed, and which one is finished.
    Raises StoreError if this machine is unlike that of the first session, or if a file that is measured has changed.
    Any error of a run is raised too; the run's lease is then still held.
    """
    board = board_of(assignment.study, assignment.directory, assignment.terms)
    opened = _open(assignment, report)
    file = WorkerFile(assignment.directory, assignment.terms.worker)
    file.open(assignment.study, opened.session)
    timed = set[str]()
    while (claim := board.claim(assignment.phase, timed, assignment.failed_here)) is not None:
        say({"claimed": str(claim.key), "attempt": claim.attempt})
        start = time.perf_counter()
        lines = list(_lines(assignment, claim, opened, board, report))
        ended = Run(
            block=claim.key.block,
            number=claim.key.number,
            attempt=claim.attempt,
            worker=assignment.terms.worker,
            session=opened.session.id,
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


def _open(assignment: Assignment, report: Report) -> Opened:
    """Load the model. Return it with the session, which is not written yet."""
    study, engine = assignment.study, assignment.terms.engine
    busy_cores = assignment.terms.start_meter()
    if (first := first_session(assignment.directory)) is not None:
        from trio_profile.inputs.environment import collect

        require_same_environment([first], collect(study.device), assignment.directory, _UNLIKE)
    report(f"loading {study.model}", 0, 0)
    opened = open_process(study, assignment.command, keep_refusals=assignment.keep_refusals, engine=engine)
    session = opened.session
    if busy_cores is not None:
        session = session.model_copy(update={"engine_cores": busy_cores()})
    first = agree(assignment.directory, session)
    require_same_environment([first], session.environment, assignment.directory, _UNLIKE)
    require_same_inputs(study, [first], session.inputs, assignment.directory)
    return replace(opened, session=session)


def _lines(assignment: Assignment, claim: Claim, opened: Opened, board: Board, report: Report) -> Iterator[Measured]:
    """Yield the lines of a run: what was measured, or that the run was given up."""
    key = claim.key
    cells = tuple(cell.id for cell in board.cells.get(key.block, ()))
    only_times = key.number > 0 and board.processes > 1
    if only_times:
        cells = tuple(name for name in cells if name in board.counted)
    if claim.given_up is not None:
        failed = [planned.cell for planned in opened.plan.cells if planned.cell.id in cells]
        yield from (Measurement(cell=cell, status="failed", reason=claim.given_up[:300]) for cell in failed)
        return
    counted = set(cells)
    if not only_times:
        share = Share(
            counts=cells,
            answers=cells,
            dense=key.block == DENSE,
            picture=key.block == DENSE,
            keep_faults=claim.is_last,
        )
        parts = Parts(1, asks=asks(opened))
        for part in count_share(opened, share, report):
            for line in parts.add(part):
                yield line
                if isinstance(line, Measurement) and line.status != "counted":
                    counted.discard(line.cell.id)
    if key.number > 0:
        seconds = assignment.study.seconds
        allowance = Allowance(left=seconds, whole=seconds, processes=board.processes)
        seed = f"{assignment.study.seed} {key.number}"
        timer = Timer(opened, blocks_of(opened.plan, counted), seed, keep_faults=claim.is_last, report=report)
        yield from timer.measure(allowance)
