"""TRIO's printed and paying schedule beside each other: the CPU time of a prefill, dense over pruned.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.schedule_rules pocket 0.11,0.33,0.66,0.77,0.88

Dense and pruned runs alternate in one process. Each line has the median of the paired ratios, and their quartiles.
"""

import argparse
import random
import statistics
import time
from contextlib import nullcontext
from typing import Literal

import torch

from trio_core import Schedule, Trio, prune
from trio_profile.inputs.workload import Workload, build
from trio_profile.records.schema import Study

RULES: tuple[Literal["printed"], Literal["paying"]] = ("printed", "paying")


def cpu_seconds(workload: Workload, method: Trio | None) -> tuple[float, Schedule | None]:
    """The CPU time of one prefill, and the schedule that ran. method: None is dense."""
    with nullcontext() if method is None else prune(workload.model, method) as trace:
        start = time.process_time()
        workload.prefill()
        used = time.process_time() - start
    return used, None if trace is None else trace.schedules[0]


def main() -> None:
    """Print a line for each retention and schedule rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("retentions", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    workload = build(Study(model=options.model))
    methods = [Trio(retention=retention, schedule_rule=rule) for retention in options.retentions for rule in RULES]
    ran = {method: cpu_seconds(workload, method)[1] for method in methods}
    ratios: dict[Trio, list[float]] = {method: [] for method in methods}
    order = random.Random(0)
    for number in range(options.rounds):
        for method in order.sample(methods, len(methods)):
            pair: list[Trio | None] = [None, method] if number % 2 else [method, None]
            used = {one: cpu_seconds(workload, one)[0] for one in pair}
            ratios[method].append(used[None] / used[method])
    for method in methods:
        low, _, high = statistics.quantiles(ratios[method], n=4)
        found = ran[method]
        assert found is not None
        print(
            f"{method.retention:.0%} {method.schedule_rule}: {found.budgets} after {found.layers}: "
            f"{statistics.median(ratios[method]):.2f}× [{low:.2f}, {high:.2f}]"
        )


if __name__ == "__main__":
    main()
