"""A run of a block: the piece of work that a worker claims, measures and keeps as a whole."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from trio_profile.records.record import OneOrMore, Record, ZeroOrMore
from trio_profile.records.study import Study

DENSE = "dense"
"""The name of the block that holds the dense model alone. It is only counted."""


class RunKey(NamedTuple):
    """Which run of which block.

    block: name of the block, such as `cells-1`.
    number: 0 counts the cells and asks the questions. Each further number is a process that times the cells. If a study
        has one process, run 1 does both.
    """

    block: str
    number: int

    def __str__(self) -> str:
        return f"{self.block}.{self.number}"


class Run(Record):
    """The end of a run in a worker's file. The lines since the worker's previous run belong to it.

    A run without this line was interrupted, and its lines do not count.

    block, number: as in `RunKey`.
    attempt: how often the run was begun, this time included.
    worker: name of the worker.
    session: id of the worker's session.
    seconds: how long the run took.
    failed: why the run was given up; None if it was measured.
    """

    record: Literal["run"] = "run"
    block: str
    number: ZeroOrMore
    attempt: OneOrMore
    worker: str
    session: str
    seconds: Annotated[float, Field(ge=0)] = 0.0
    failed: str | None = None

    @property
    def key(self) -> RunKey:
        """Which run it is."""
        return RunKey(self.block, self.number)


def runs_of(study: Study, processes: int) -> list[RunKey]:
    """All runs of a study: of the dense model, then counts, then times. processes: how many processes time a cell."""
    names = list(study.blocks())
    counts = [RunKey(name, 0) for name in names] if processes > 1 else []
    return [RunKey(DENSE, 0), *counts, *(RunKey(name, 1 + p) for p in range(processes) for name in names)]
