"""How far a study of several workers is, on standard error: a live table in a terminal, else a line now and then."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trio_profile import units
from trio_profile.cli.progress import plain_lines, time_left
from trio_profile.progress import Step

if TYPE_CHECKING:
    from rich.table import Table

    from trio_profile.engine.overview import Overview


@contextmanager
def live() -> "Iterator[Callable[[Overview], None]]":
    """Yield the function that is called with each state of the study."""
    if not sys.stderr.isatty():
        watch = plain_lines(sys.stderr)
        yield lambda state: watch(Step(summary(state)))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as screen:
        yield lambda state: screen.update(table(state), refresh=True)


def summary(state: "Overview") -> str:
    """Return the state in one line."""
    working = sum(bool(worker.measures) for worker in state.workers)
    parts = [
        f"{state.measured} of {units.number_of(state.measured + state.given_up + state.left, 'run')} measured",
        f"{state.given_up} given up" if state.given_up else "",
        f"{units.number_of(working, 'worker')} at work",
        time_left(state.seconds_left),
        *(f"not used: {text}" for text in state.refused),
    ]
    return ", ".join(part for part in parts if part)


def table(state: "Overview") -> "Table":
    """Return the state as a table of the workers, with the summary as its title."""
    from rich.markup import escape
    from rich.table import Table

    found = Table(
        "worker", "host", "measures", "attempt", "finished", title=escape(summary(state)), title_justify="left"
    )
    for worker in state.workers:
        attempt = units.exact(worker.attempt) if worker.measures else ""
        found.add_row(worker.name, worker.host, worker.measures or "–", attempt, units.exact(worker.finished))
    return found
