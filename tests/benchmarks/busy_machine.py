"""Measure one sweep on a quiet machine and beside busy loops: how many pairs are left, and do the intervals hold?

    python -m tests.benchmarks.busy_machine --loops 2 --threads 2 --seconds 5

The sweep has ten cells and runs twice: first alone, then beside loops of plain Python. Two further loops show how much
of the CPU a program of two threads gets beside them. Studies are kept in --out, and finished ones are not measured
again. The machine must do nothing else meanwhile.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.program import Call, call, call_once, contains, machine, parser, write
from trio_profile import units
from trio_profile.records.store import Store

RETENTIONS = (0.11, 0.18, 0.25, 0.33, 0.4, 0.48, 0.55, 0.63, 0.7, 0.77)
PROBE_SECONDS = 5.0
LOOP = """
import os
while os.getppid() == {parent}:
    for _ in range(100_000):
        pass
"""
"""A busy loop. It ends with the process that started it."""
PROBE = """
import time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pass
print(time.process_time())
"""
"""A busy loop that ends after some seconds, and prints the CPU time that it got."""
PROBES = """
import subprocess, sys
probes = [subprocess.Popen([sys.executable, "-c", {probe!r}]) for _ in range({threads})]
sys.exit(max(probe.wait() for probe in probes))
"""
"""So many of them at once, in the session of this process."""


def main() -> None:
    """Measure both sweeps, print the tables, and write `result.json` in --out."""
    options = _options()
    start, before = time.monotonic(), machine()
    quiet = _side(options, "quiet")
    with busy_loops(options.loops):
        busy = _side(options, "busy")
    result = {
        "machine": before | {"environment": quiet["environment"]},
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "seconds": time.monotonic() - start,
        **summary(quiet, busy),
        "quiet": quiet,
        "busy": busy,
    }
    write(options.out / "result.json", result)
    _print(result)


def summary(quiet: Mapping[str, Any], busy: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from the two sides.

    cpu_left: the share of the quiet machine's CPU time that a program gets beside the loops.
    pairs_of_possible: the pairs per second beside the loops / those of the quiet machine times `cpu_left`.
    containing: how many intervals of the prefill's speed-up beside the loops contain the value of the quiet machine.
    cells: how many cells both sides measured.
    """
    left = busy["cpu_share"] / quiet["cpu_share"]
    rates = [side["pairs"] / side["sampled_seconds"] for side in (quiet, busy)]
    speedups = matched_speedups(quiet, busy)
    return {
        "cpu_left": left,
        "pairs_of_possible": rates[1] / (rates[0] * left),
        "containing": sum(contains(busy_one, quiet_one["median"]) for quiet_one, busy_one in speedups.values()),
        "cells": len(speedups),
    }


def matched_speedups(quiet: Mapping[str, Any], busy: Mapping[str, Any]) -> dict[float, tuple[Any, Any]]:
    """Return the speed-up of the prefill on the quiet machine and beside the loops, by the cell's retention."""
    quiet_cells, busy_cells = (
        {cell["nominal_retention"]: cell["prefill_speedup"] for cell in side["cells"]} for side in (quiet, busy)
    )
    return {name: (quiet_cells[name], busy_cells[name]) for name in quiet_cells if name in busy_cells}


def count_doubts(doubts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many doubts there are, by their kind."""
    return dict(Counter(doubt["kind"] for doubt in doubts))


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Keep so many busy loops running, each in a process and a session of its own.

    Linux may share the CPU out by sessions (autogroup). The processes of a study are in sessions of their own too.
    """
    with ExitStack() as stack:
        for _ in range(number):
            loop = subprocess.Popen([sys.executable, "-c", LOOP.format(parent=os.getpid())], start_new_session=True)
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


def cpu_share(threads: int, seconds: float) -> float:
    """Return the share of its CPU time that a program of so many threads gets now: 1 on a quiet machine.

    It is measured with a process in a session of its own, as the program has: a busy loop in a process for each thread.
    """
    line = [sys.executable, "-c", PROBES.format(probe=PROBE.format(seconds=seconds), threads=threads)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
    return sum(map(float, done.stdout.split())) / (threads * seconds)


def _side(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Measure one side, or read what an earlier run has kept of it.

    The share of the CPU is measured before the sweep and after it, because other work may come and go. It is measured
    anew if the sweep was kept.
    """
    directory = options.out / name
    shares = [cpu_share(options.threads, PROBE_SECONDS)]
    sweep = _sweep(options, directory)
    shares.append(cpu_share(options.threads, PROBE_SECONDS))
    check = call(["check", str(directory)], {})
    timings = [timing for cell in Store(directory).read().measurements for timing in cell.timings]
    return {
        "commands": [sweep.command, check.command],
        "seconds": sweep.seconds,
        "environment": sweep.document["environment"],
        "cpu_shares": shares,
        "cpu_share": sum(shares) / len(shares),
        "pairs": sum(len(timing.pairs) for timing in timings),
        "sampled_seconds": sum(timing.seconds for timing in timings),
        "doubts": check.document["doubts"],
        "cells": [cell for cell in sweep.document["cells"] if cell["status"] == "done"],
    }


def _sweep(options: argparse.Namespace, directory: Path) -> Call:
    retentions = ",".join(map(units.plain, RETENTIONS))
    arguments = ["sweep", "--device", "cpu", "--model", "pocket", "--method", "trio", "--retention", retentions]
    # The least number of questions that a sweep of this model asks: this is about times.
    arguments += ["--asked", "10", "--seconds", str(options.seconds)]
    if options.processes is not None:
        arguments += ["--processes", str(options.processes)]
    return call_once(directory, arguments, {"OMP_NUM_THREADS": str(options.threads)})


def _print(result: Mapping[str, Any]) -> None:
    options, sides, console = result["options"], (result["quiet"], result["busy"]), Console()
    cells = Table("retention", "quiet", "busy", "busy contains quiet", title="Speed-up of the prefill")
    for retention, speedups in matched_speedups(*sides).items():
        texts = [units.times_within(speedup["median"], speedup["ci95"]) for speedup in speedups]
        holds = contains(speedups[1], speedups[0]["median"])
        cells.add_row(units.percent(retention, digits=0), *texts, "yes" if holds else "no")
    both = Table("", "quiet", "busy", title=f"Quiet, and beside {units.number_of(options['loops'], 'loop')}")
    both.add_row("pairs in all cells", *(units.exact(side["pairs"]) for side in sides))
    both.add_row("sampled for", *(units.duration(side["sampled_seconds"]) for side in sides))
    both.add_row("the sweep took", *(units.duration(side["seconds"]) for side in sides))
    both.add_row("share of the CPU", *(units.percent(side["cpu_share"]) for side in sides))
    doubts = [count_doubts(side["doubts"]) for side in sides]
    for kind in sorted({kind for counted in doubts for kind in counted}):
        both.add_row(f"doubts: {kind}", *(str(counted.get(kind, 0)) for counted in doubts))
    console.print(cells, both)
    console.print(
        f"Pairs per second beside the loops: {units.percent(result['pairs_of_possible'])} of those that the share of "
        f"CPU which is left ({units.percent(result['cpu_left'])}) allows. {result['containing']} of {result['cells']} "
        f"intervals contain the quiet value. This run took {units.duration(result['seconds'])}. "
        f"All figures: {options['out']}/result.json",
        soft_wrap=True,
    )


def _options() -> argparse.Namespace:
    script = parser("busy_machine", __doc__)
    script.add_argument("--loops", type=int, default=2, help="how many busy loops (default: 2)")
    return script.parse_args()


if __name__ == "__main__":
    main()
