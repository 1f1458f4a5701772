"""How much narrower the intervals of rounds are than those of the design before, for equal seconds of measuring.

    python -m tests.benchmarks.precision_per_second --seconds 60 --rounds 3 [BASE]

Each round runs two sweeps of ten retentions on `pocket`, one after the other: the revision before rounds, which timed
each cell on its own in four processes, and this tree. Both measure for so many seconds, all cells together.
Printed are the median half widths of the prefill speed-ups, and their ratio.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from trio_profile.gate.rivals import worktree

ROOT = Path(__file__).parents[2]
BEFORE = "855878f"
"""The last commit that timed each cell on its own."""
CELLS = 10


def half_width(quantity: Mapping[str, Any]) -> float:
    """Return the half width of a quantity's interval, divided by its value."""
    low, high = quantity["ci95"]
    return (high - low) / 2 / quantity["median"]


def sweep(tree: Path, seconds: float) -> list[float]:
    """Return the relative half widths of a sweep's prefill speed-ups. seconds: as the tree's own option means it."""
    # Older revisions have trio_core in core/.
    places = [str(place) for place in (tree, tree / "core") if place.is_dir()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    with tempfile.TemporaryDirectory() as out:
        arguments = ["sweep", "--asked", "10", "--seconds", f"{seconds:g}", "--out", out, "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "trio_profile", *arguments],
            cwd=out,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return [half_width(cell["prefill_speedup"]) for cell in json.loads(done.stdout)["cells"]]


def main() -> None:
    """Measure in turn, and print the widths and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", default=BEFORE)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ratios: list[float] = []
    with worktree(ROOT, options.base) as base:
        for number in range(1, options.rounds + 1):
            before = median(sweep(base, options.seconds / CELLS))
            after = median(sweep(ROOT, options.seconds))
            ratios.append(after / before)
            print(f"{number}: before ±{before:.1%}, now ±{after:.1%}, ratio {after / before:.2f}", flush=True)
    print(f"ratio of the widths: {median(ratios):.2f}")


if __name__ == "__main__":
    main()
