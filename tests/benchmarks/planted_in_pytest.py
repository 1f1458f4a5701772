"""How often the fixture `trio_gate` fails a test whose work became slower, and one whose work did not change.

    python -m tests.benchmarks.planted_in_pytest DIR                    # all runs: about ten minutes on two quiet cores
    python -m tests.benchmarks.planted_in_pytest DIR --slower 1.6 --runs 3

A run is a pytest process with two gates on the same work: of two functions, and of two revisions of a repository. The
runs of all slow-downs are mixed, in an order that follows from the seed. Each finished run is a line of DIR/runs.jsonl,
and the same command goes on where it was. At its end it prints the table of all finished runs.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.places import PYTHONPATH, commit_all

RUNS = {1.0: 100, 1.1: 10, 1.6: 10, 8.0: 10}
"""How many runs each slow-down has. 1.0 is unchanged code."""
NUMBERS = 30_000
"""The base counts to this number, which takes one or two milliseconds."""
WORK = """
import time

NUMBERS = {numbers}

def count_to(numbers):
    sum(1 for _ in range(numbers))

def job():
    def run():
        start = time.perf_counter_ns()
        count_to(NUMBERS)
        return (time.perf_counter_ns() - start) / 1e6
    return run
"""
GATES = """
import pytest
from work import count_to

@pytest.mark.trio_gate(seconds=10)
def test_functions(trio_gate):
    trio_gate(lambda: count_to({slower}), base=lambda: count_to({base}))

@pytest.mark.trio_gate(seconds=10)
def test_revisions(trio_gate):
    trio_gate("work:job")
"""
GATED = ("test_functions", "test_revisions")


def outcomes(slower: float) -> dict[str, Any]:
    """The verdict of each gate in one run of pytest, with its interval, by the name of the test."""
    with TemporaryDirectory(prefix="trio-planted-") as place:
        directory = Path(place)
        (directory / "test_gates.py").write_text(GATES.format(base=NUMBERS, slower=round(slower * NUMBERS)))
        (directory / "work.py").write_text(WORK.format(numbers=NUMBERS))
        commit_all(directory)
        (directory / "work.py").write_text(WORK.format(numbers=round(slower * NUMBERS)))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--trio-gate-base=HEAD", "--benchmark-json=out.json"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), PYTHONPATH])},
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        benchmarks = json.loads((directory / "out.json").read_text())["benchmarks"]
    told = {benchmark["name"]: benchmark["extra_info"]["trio_gate"] for benchmark in benchmarks}
    return {name: {key: told[name][key] for key in ("verdict", "ci95", "samples")} for name in GATED}


def table(finished: list[dict[str, Any]]) -> str:
    """How many runs of each slow-down are red, by gate, and what the others are."""
    lines = ["slower   gate             runs   red   other verdicts"]
    for slower in sorted({run["slower"] for run in finished}):
        for name in GATED:
            counts = Counter(run[name]["verdict"] for run in finished if run["slower"] == slower)
            total, red = counts.total(), counts.pop("regression", 0)
            others = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            lines.append(f"{slower:<8g} {name:<16} {total:>4}  {red:>4}   {others}".rstrip())
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--slower", type=float, nargs="+", default=list(RUNS))
    parser.add_argument("--runs", type=int, help="of each slow-down. Default: 100 of unchanged code, else 10.")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    log = asked.directory / "runs.jsonl"
    finished = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(run["slower"], run["number"]) for run in finished}
    runs = [(slower, number) for slower in asked.slower for number in range(asked.runs or RUNS.get(slower, 10))]
    random.Random(asked.seed).shuffle(runs)
    begin = time.monotonic()
    for slower, number in runs:
        if (slower, number) in done:
            continue
        finished.append({"slower": slower, "number": number, **outcomes(slower)})
        with log.open("a") as file:
            print(json.dumps(finished[-1]), file=file)
        verdicts = ", ".join(finished[-1][name]["verdict"] for name in GATED)
        print(f"{len(finished)}: {slower:g}× {verdicts}, after {time.monotonic() - begin:.0f} s", flush=True)
    print(table(finished))


if __name__ == "__main__":
    main()
