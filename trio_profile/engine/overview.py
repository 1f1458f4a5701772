"""How far a study of several workers is: who measures what, and how long the rest will take."""

from dataclasses import dataclass
from typing import Any

from trio_profile.engine.board import Board


@dataclass(frozen=True)
class Overview:
    """How far a study is.

    measured, given_up, left: numbers of runs.
    running: the worker of each run that is measured now, by the run's name.
    seconds_left: expected time; None before the first run is finished, and while nobody works.
    refused: one sentence for each machine that is not used any more.
    """

    measured: int
    given_up: int
    left: int
    running: dict[str, str]
    seconds_left: float | None
    refused: tuple[str, ...] = ()


def overview(board: Board, **fields: Any) -> Overview:
    """Return how far a study is, as far as `Board.look` has seen. fields: further ones of Overview.

    The rest is expected to take as long as the finished runs.
    """
    attempts = board.leases.attempts(board.todo)
    held = {name: attempt.number for name, attempt in attempts.items() if attempt.is_held(board.leases.seconds)}
    running = {name: board.leases.worker_of(name, number) for name, number in sorted(held.items())}
    given_up, left = len(board.given_up), len(board.todo)
    finished, seconds = board.spent
    rest = left * seconds / finished / len(running) if finished and running else None
    return Overview(len(board.done) - given_up, given_up, left, running, rest, **fields)
