"""TRIO's CPU time over random's: whether it grew from another checkout to this one.

    python -m tests.benchmarks.over_random BASE_CHECKOUT --rounds 12

Each round starts one fresh process of either checkout, in turn the one or the other first. A process has one thread,
loads `pocket`, warms up, and runs pairs of a prefill with random and one with TRIO, at 11 %. Printed are the median
ratios of both checkouts, and the median over the rounds of the ratio new / base with its 95 % interval. Run nothing
else on the machine meanwhile.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RETENTION = 0.11
WARM_UPS = 5
HERE = Path(__file__).resolve().parents[2]


def measure(pairs: int) -> dict[str, object]:
    """Measure in this process. Return the median CPU times of both methods, and of the pairs' ratios."""
    import torch

    import trio_core
    from trio_core import methods, prune
    from trio_profile.inputs.workload import build
    from trio_profile.records.schema import Study

    torch.set_num_threads(1)
    workload = build(Study(model="pocket"))
    random, trio = (methods.find(name)(retention=RETENTION) for name in ("random", "trio"))

    def cpu_ms(method: object) -> float:
        start = time.process_time_ns()
        with prune(workload.model, method):
            workload.prefill()
        return (time.process_time_ns() - start) / 1e6

    found = [(cpu_ms(random), cpu_ms(trio)) for _ in range(WARM_UPS + pairs)][WARM_UPS:]
    return {
        "code": trio_core.__file__,
        "random_ms": statistics.median(pair[0] for pair in found),
        "trio_ms": statistics.median(pair[1] for pair in found),
        "ratio": statistics.median(pair[1] / pair[0] for pair in found),
    }


def in_fresh_process(checkout: Path, pairs: int) -> dict[str, float]:
    """The same in a fresh process that runs the code of a checkout."""
    variables = {**os.environ, "PYTHONPATH": f"{checkout}:{checkout / 'core'}", "OMP_NUM_THREADS": "1"}
    # By path and not by name: the other checkout need not have this file.
    command = [sys.executable, __file__, str(checkout), "--child", "--pairs", str(pairs)]
    done = subprocess.run(command, env=variables, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert Path(seen["code"]).is_relative_to(checkout), f"{checkout} was not imported, but {seen['code']}"
    return seen


def main() -> None:
    """Measure both checkouts in turn, and print the ratio of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="the other checkout of the repository")
    parser.add_argument("--rounds", type=int, default=12, help="processes of each checkout")
    parser.add_argument("--pairs", type=int, default=31, help="pairs in a process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.pairs)))
        return
    from trio_profile.stats.intervals import median_interval

    checkouts = {"base": given.base.resolve(), "new": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for number in range(given.rounds):
        for name in ("base", "new") if number % 2 else ("new", "base"):
            found[name].append(in_fresh_process(checkouts[name], given.pairs))
    for name, seen in found.items():
        trio, random, ratio = (statistics.median(one[key] for one in seen) for key in ("trio_ms", "random_ms", "ratio"))
        print(f"{name:4}  TRIO {trio:.2f} ms, random {random:.2f} ms, TRIO over random {ratio:.4f}")
    ratios = [new["ratio"] / base["ratio"] for base, new in zip(found["base"], found["new"], strict=True)]
    low, high = median_interval(ratios)
    print(f"new over base: {statistics.median(ratios):.4f}, 95 % interval {low:.4f} … {high:.4f}, {len(ratios)} rounds")


if __name__ == "__main__":
    main()
