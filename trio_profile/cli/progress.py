"""A progress bar with an estimate of what is left, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """Yield `watch(finished, all, what comes next)`, which moves the bar."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        # The mean over all finished cells: a window of seconds would forget cells that take longer than it.
        TimeRemainingColumn(compact=True, elapsed_when_finished=False),
        console=Console(stderr=True),
        speed_estimate_period=3600,
    )
    with bar:
        task = bar.add_task("starting", total=None)
        yield lambda finished, total, coming: bar.update(task, completed=finished, total=total, description=coming)
