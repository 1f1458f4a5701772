"""How far a study of several workers is: who measures what, and how long the rest will take."""

from dataclasses import dataclass

from trio_profile.engine.board import Board


@dataclass(frozen=True)
class WorkerState:
    """One worker that has measured something, or measures now.

    host: name of its machine; empty before it has finished a run.
    measures: the run that it measures now, such as `at-0.33.1`; empty if it measures none.
    attempt: how often this run was begun; 0 if it measures none.
    finished: how many runs it has finished.
    """

    name: str
    host: str
    measures: str
    attempt: int
    finished: int


@dataclass(frozen=True)
class Overview:
    """How far a study is.

    workers: by name.
    measured, given_up, left: numbers of runs.
    seconds_left: expected time; None before the first run is finished, and while nobody works.
    refused: one sentence for each machine that is not used any more.
    """

    workers: tuple[WorkerState, ...]
    measured: int
    given_up: int
    left: int
    seconds_left: float | None
    refused: tuple[str, ...] = ()


def overview(board: Board) -> Overview:
    """Return how far a study is, as far as `Board.look` has seen."""
    attempts = board.leases.attempts(board.todo)
    measured_now = {
        board.leases.worker_of(name, attempt.number): (name, attempt.number)
        for name, attempt in attempts.items()
        if attempt.is_held(board.leases.seconds)
    }
    workers = tuple(
        WorkerState(name, board.hosts.get(name, ""), *measured_now.get(name, ("", 0)), board.finished[name])
        for name in sorted({*measured_now, *board.finished})
    )
    given_up = len(board.given_up)
    left = _seconds_left(board, len(measured_now))
    return Overview(workers, len(board.done) - given_up, given_up, len(board.todo), left)


def _seconds_left(board: Board, workers: int) -> float | None:
    """Return the time that the rest will take: each run takes as long as those that counted, or timed, before it."""
    number, seconds = (sum(values) for values in zip(*board.spent.values(), strict=True)) if board.spent else (0, 0.0)
    if not number or not workers:
        return None
    left = 0.0
    for counts in (True, False):
        same = board.spent.get(counts, (number, seconds))
        left += same[1] / same[0] * sum((key.number == 0) is counts for key in board.todo.values())
    return left / workers
