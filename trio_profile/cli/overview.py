"""How far a study of several workers is, as a line and as a table."""

from typing import TYPE_CHECKING

from trio_profile import units
from trio_profile.cli.progress import time_left

if TYPE_CHECKING:
    from rich.table import Table

    from trio_profile.engine.overview import Overview


def summary(state: "Overview") -> str:
    """Return the state in one line."""
    working = sum(bool(worker.measures) for worker in state.workers)
    parts = [
        f"{state.measured} of {units.number_of(state.measured + state.given_up + state.left, 'run')} measured",
        f"{state.given_up} given up" if state.given_up else "",
        f"{working} in progress" if working else "",
        time_left(state.seconds_left),
        *(f"not used: {text}" for text in state.refused),
    ]
    return ", ".join(part for part in parts if part)


def table(state: "Overview") -> "Table":
    """Return the state as a table of the workers, with the summary as its title."""
    from rich.markup import escape
    from rich.table import Table

    columns = ("worker", "host", "measures", "attempt", "finished")
    workers = Table(*columns, title=escape(summary(state)), title_justify="left")
    for worker in state.workers:
        attempt = units.exact(worker.attempt) if worker.measures else ""
        workers.add_row(worker.name, worker.host, worker.measures or "–", attempt, units.exact(worker.finished))
    return workers
