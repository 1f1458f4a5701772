"""The cost of Ray's own processes on this machine: its daemons, agents and actors, but not what actors start."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_LOOKED_AT = 3
"""How many words of a command line tell whether it is Ray's. The later ones may name folders of Ray."""
_FOLDERS = (b"/ray/core/src/ray/", b"/ray/_private/", b"/ray/dashboard/", b"/ray/autoscaler/")
"""Where the programs of Ray are. `/ray/` alone may be the home of a user."""


def start() -> Callable[[], float]:
    """Return a function that says how many cores Ray's processes kept busy since now."""
    before, begin = cpu_seconds(), time.perf_counter()
    return lambda: cores(before, cpu_seconds(), time.perf_counter() - begin)


def cpu_seconds() -> dict[int, float]:
    """Return the CPU seconds so far of each process of Ray, by its number. Empty if the system does not say it."""
    ticks = os.sysconf("SC_CLK_TCK")
    seconds: dict[int, float] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            words = (process / "cmdline").read_bytes().split(b"\0")[:_LOOKED_AT]
            if words[0].startswith(b"ray::") or any(folder in word for word in words for folder in _FOLDERS):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                seconds[int(process.name)] = (int(fields[11]) + int(fields[12])) / ticks
    return seconds


def cores(before: dict[int, float], after: dict[int, float], seconds: float) -> float:
    """Return how many cores the processes kept busy between two calls of `cpu_seconds`.

    seconds: the time between the calls.
    """
    return sum(max(0.0, spent - before.get(process, 0.0)) for process, spent in after.items()) / seconds
