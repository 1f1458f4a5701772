"""Show the present step and the time that is left, on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from trio_profile import units
from trio_profile.text import one_line

if TYPE_CHECKING:
    from trio_profile.progress import Step, Watch

LINE_SECONDS = 15.0
"""Least time between two lines where standard error is no terminal."""


class TimeLeft:
    """An estimate of the time left, from the steps seen so far.

    clock: seconds, only ever growing.
    """

    def __init__(self, clock: Callable[[], float] = monotonic):
        self.clock = clock
        self.first: tuple[float, float] | None = None
        self.last: tuple[float, float, float] | None = None

    def see(self, step: "Step") -> None:
        """Take note of a step. One without a total says nothing of the time left."""
        if step.total > 0:
            self.first = self.first or (self.clock(), step.done)
            self.last = (self.clock(), step.done, step.total)

    def seconds(self) -> float | None:
        """Seconds left now; None while nothing is known.

        Expected seconds are scaled by how long the finished ones really took.
        """
        if self.first is None or self.last is None:
            return None
        (began, done_before), (seen, done, total) = self.first, self.last
        pace = (seen - began) / (done - done_before) if done > done_before and seen > began else 1.0
        return max(0.0, (total - done) * pace - (self.clock() - seen))


@contextmanager
def progress() -> "Iterator[Watch]":
    """Yield the function that is called with each step: a moving line in a terminal, else a plain line now and then."""
    if sys.stderr.isatty():
        with _moving() as watch:
            yield watch
    else:
        yield plain_lines(sys.stderr)


def plain_lines(stream: TextIO, clock: Callable[[], float] = monotonic) -> "Watch":
    """A function that writes the first step, then a step at most every LINE_SECONDS."""
    left = TimeLeft(clock)
    written: float | None = None

    def watch(step: "Step") -> None:
        nonlocal written
        left.see(step)
        if written is None or clock() - written >= LINE_SECONDS:
            written = clock()
            line = ", ".join(filter(None, (one_line(step.text), time_left(left.seconds()))))
            print(f"trio-profile: {line}", file=stream, flush=True)

    return watch


@contextmanager
def _moving() -> "Iterator[Watch]":
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    left = TimeLeft()
    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn()),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, left="")

        def watch(step: "Step") -> None:
            left.see(step)
            text = escape(one_line(step.text))
            rest = time_left(left.seconds())
            bar.update(task, description=text, completed=step.done, total=step.total or None, left=rest)

        yield watch


def time_left(seconds: float | None) -> str:
    """The time left in words; empty while it is not known, and when a step takes longer than was expected."""
    return f"about {units.duration(seconds)} left" if seconds else ""
