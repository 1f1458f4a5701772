"""How right the expected time of `--dry-run` is, and how long the dry run takes.

    python -m tests.benchmarks.dry_run                    # every study of STUDIES
    python -m tests.benchmarks.dry_run --only "sweep"     # those that begin so

A study runs between two dry runs, because a machine changes its speed. The ratio is its time over the mean of what both
expected. It should be from 2/3 to 1.5. The machine must do nothing else meanwhile.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import mean

from tests.places import PYTHONPATH

STUDIES = (
    "sweep",
    "sweep --retention 0.22",
    "sweep --retention 0.22,0.55 --processes 8 --seconds 40",
    "sweep --retention 0.22,0.55 --processes 1",
    "sweep --retention 0.22,0.55 --until 0.01 --seconds 150",
    "sweep --retention 0.22 --asked 0",
    "sweep --model pocket-deep --retention 0.22,0.55",
    "compare --method trio --method fastv --method visionzip --method divprune",
    "ablate --only saliency",
    "layers",
    "flops",
    "theory",
)


@dataclass(frozen=True)
class Spent:
    """What one command printed, and its seconds: of the clock, and of the CPU with its processes."""

    text: str
    wall: float
    cpu: float


def call(arguments: list[str]) -> Spent:
    """Run the real program of this tree."""
    begin, cpu = time.monotonic(), _cpu()
    done = subprocess.run(
        [sys.executable, "-m", "trio_profile", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of trio-profile {shlex.join(arguments)}: {done.stderr[-300:]}")
    return Spent(done.stdout, time.monotonic() - begin, _cpu() - cpu)


def _cpu() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line for each study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the beginning of the studies to run")
    options = parser.parse_args()
    for command in (command for command in STUDIES if command.startswith(options.only)):
        arguments = shlex.split(command)
        with tempfile.TemporaryDirectory() as directory:
            before = call([*arguments, "--dry-run"])
            real = call([*arguments, "--out", str(Path(directory) / "study")])
            after = call([*arguments, "--dry-run"])
        dry = (before, after)
        expected = [json.loads(spent.text)["seconds"] for spent in dry]
        print(
            f"{command}: expected {expected[0]:.0f} and {expected[1]:.0f} s, took {real.wall:.0f} s "
            f"({real.cpu:.0f} s of CPU): {real.wall / mean(expected):.2f}; each dry run took "
            f"{mean(spent.wall for spent in dry):.1f} s ({mean(spent.cpu for spent in dry):.1f} s of CPU)",
            flush=True,
        )


if __name__ == "__main__":
    main()
