"""How often the gate catches a slow-down between two stored studies of the same settings.

    python -m tests.benchmarks.planted --slower 0.10 runs/a runs/b …

Each two studies are a pair. The pruned prefills of the second one are made longer in the record, wall time and CPU time
alike, by the given share, and `trio-profile gate` judges it against the first. With --slower 0 each `regression` and
each `improved` is a false verdict.
"""

import argparse
from collections import Counter
from itertools import permutations
from pathlib import Path

from trio_profile.kinds.gate.evidence import compare, of_study
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Timed
from trio_profile.records.store import Store


def slowed(directory: Path, share: float) -> Contents:
    """Return the contents of a study whose pruned prefills took longer by a share."""
    contents = Store(directory).read()
    for number, measured in enumerate(contents.rounds):
        runs = tuple(_slowed(run, share) if run.cell else run for run in measured.runs)
        contents.rounds[number] = measured.model_copy(update={"runs": runs})
    return contents


def _slowed(run: Timed, share: float) -> Timed:
    longer = run.prefill_ms * share
    times = {"prefill_ms": run.prefill_ms + longer}
    if run.cpu_ms is not None:
        times["cpu_ms"] = run.cpu_ms * (1 + share)
    for name in ("total_ms", "ttft_ms"):
        if (value := getattr(run, name)) is not None:
            times[name] = value + longer
    return run.model_copy(update=times)


def main() -> None:
    """Print in how many pairs the gate fails, and the verdicts of each timed quantity."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="+", type=Path)
    parser.add_argument("--slower", type=float, default=0.10)
    parser.add_argument("--max-ratio", type=float, default=1.03)
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    pairs, caught = 0, 0
    for base, new in permutations(options.studies, 2):
        sides = of_study(Store(base).read(), base.name), of_study(slowed(new, options.slower), new.name)
        verdicts = compare(*sides, max_ratio=options.max_ratio)
        pairs, caught = pairs + 1, caught + any(verdict.verdict == "regression" for verdict in verdicts)
        for verdict in verdicts:
            if verdict.ci95 is not None:
                counts.setdefault(verdict.quantity, Counter())[verdict.verdict] += 1
    print(f"pairs with a regression: {caught} of {pairs}")
    for quantity, by_verdict in counts.items():
        print(f"{quantity}, all cells of all pairs: {dict(by_verdict)}")


if __name__ == "__main__":
    main()
