"""Compare sweeps that are the same with each other: do intervals cover another run, and is the gate right?

    python -m tests.benchmarks.identical_sweeps --sweeps 20 --seconds 20

Each two sweeps are a pair, and `trio-profile gate` judges the second against the first. Nothing changed, so each
`regression` or `improved` is a false verdict. `planted.py` plants a slow-down into the same studies. They are kept in
--out, and finished ones are not measured again. The machine must do nothing else meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.places import PYTHONPATH

RETENTION = "0.22"
SPEEDUPS = ("prefill_speedup", "total_speedup", "cpu_speedup")


def call(arguments: Sequence[str], threads: int, accepted: Sequence[int] = (0,)) -> dict[str, Any]:
    """Run the real program of this tree, and return the document that it prints. accepted: exit codes of no error."""
    done = subprocess.run(
        [sys.executable, "-m", "trio_profile", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in accepted:
        raise SystemExit(f"exit code {done.returncode} of: trio-profile {' '.join(arguments)}")
    return json.loads(done.stdout)


def sweep(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Measure a sweep of one cell into a directory, or go on with it. Return its cell."""
    arguments = ["sweep", "--device", "cpu", "--model", "pocket", "--method", "trio", "--retention", RETENTION]
    arguments += ["--asked", "10", "--seconds", f"{options.seconds:g}", "--out", str(directory)]
    [cell] = call(arguments, options.threads)["cells"]
    return cell


def describe(name: str, quantities: Sequence[Mapping[str, Any]]) -> str:
    """Say whether the intervals of one quantity, one for each sweep, cover the median of all sweeps."""
    values = [quantity["median"] for quantity in quantities]
    ends = [quantity["ci95"] for quantity in quantities]
    pooled = median(values)
    covering = sum(low <= pooled <= high for low, high in ends)
    width = median((high - low) / 2 / value for (low, high), value in zip(ends, values, strict=True))
    return f"{name}: {pooled:.3f}×, in {covering} of {len(values)} intervals of ±{width:.1%}"


def main() -> None:
    """Measure and judge, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=20, help="an even number, because two sweeps are a pair")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each sweep's times")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/identical-sweeps"))
    options = parser.parse_args()
    directories = [options.out / f"sweep-{number:03d}" for number in range(1, options.sweeps + 1)]
    cells = [sweep(options, directory) for directory in directories]
    for name in SPEEDUPS:
        print(describe(name, [cell[name] for cell in cells]))
    verdicts: dict[str, Counter[str]] = {}
    for base, new in zip(directories[::2], directories[1::2], strict=True):
        # Exit code 1 is a regression.
        document = call(["gate", str(base), str(new)], options.threads, accepted=(0, 1))
        for verdict in document["verdicts"]:
            quantity = verdict["quantity"] if verdict["ci95"] else "exact"
            verdicts.setdefault(quantity, Counter())[verdict["verdict"]] += 1
    for quantity, counted in verdicts.items():
        print(f"{quantity}, {len(directories) // 2} pairs: {dict(counted)}")


if __name__ == "__main__":
    main()
