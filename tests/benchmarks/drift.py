"""How much narrower the intervals of stored studies are because pairs follow the drift of the machine.

    python -m tests.benchmarks.drift runs/pocket …

Prints the median half width of the prefill speed-ups, for several variances of a step of the drift over that of the
noise (records/drift.py). `none` is a machine that stands still during a round: the dense runs are not moved.
"""

import sys
from pathlib import Path
from statistics import median

import trio_profile.records.timing as timing
from trio_profile.judge.times import speedup_centres
from trio_profile.records import drift
from trio_profile.records.store import Store

STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)


def half_width(directory: Path) -> float:
    """Return the median half width of a study's prefill speed-ups, without the state of the machine."""
    contents = Store(directory).read()
    return median(one.half_width() for one in speedup_centres(contents.measurements, "prefill_ms", 0.0).values())


def main() -> None:
    """Print a line for each study."""
    print("study", "none", *STEPS, sep="\t")
    follow = timing.drift_of
    for name in sys.argv[1:]:
        timing.drift_of = lambda _, times: [[1.0] * len(of_process) for of_process in times]
        widths = [half_width(Path(name))]
        timing.drift_of = follow
        for drift.STEP in STEPS:
            widths.append(half_width(Path(name)))
        print(name, *(f"{width:.1%}" for width in widths), sep="\t")


if __name__ == "__main__":
    main()
