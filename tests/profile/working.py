"""A worker on a study, as `trio-profile work` is, which keeps what it is given at once."""

from pathlib import Path
from typing import Any

from tests.profile.examples import environment
from trio_profile.records.run import Run
from trio_profile.records.schema import Session, Study
from trio_profile.records.workers import Measured, WorkerFile


class Worker:
    """A worker with one session.

    session: its id. where: fields of the machine.
    """

    def __init__(self, directory: Path, name: str, asked: Study, session: str = "", **where: Any):
        self.name, self.session, self.file = name, session or f"s-{name}", WorkerFile(directory, name)
        self.file.open(asked, Session(id=self.session, environment=environment(**where)))

    def keep(self, block: str, number: int, *lines: Measured, attempt: int = 1, **fields: Any) -> None:
        """Keep a run. fields: further ones of the run."""
        named = {"worker": self.name, "session": self.session}
        self.file.keep(lines, Run(block=block, number=number, attempt=attempt, **named, **fields))
