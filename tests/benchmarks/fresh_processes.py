"""How much fresh processes of one program differ, and what of that the preparation of processes removes.

    python -m tests.benchmarks.fresh_processes --processes 7 --threads 1

Each process loads `pocket`, warms up, and measures pairs of a dense and a pruned run (TRIO at 22 %). One variant is
left alone: no variable says how threads wait. In the second, waiting threads sleep at once. In the third, they spin for
a moment before they sleep. In the last, malloc keeps its memory too, as trio-profile does it (trio_profile/process.py).
The variants take turns, and each round begins with another one.
Printed are the range of the processes' medians, and the page faults of a dense run.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

from trio_profile.process import BRIEF_WAIT

VARIANTS = {
    "left alone": {},
    "threads sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
    "threads spin, then sleep": BRIEF_WAIT,
    "the same, kept memory": {**BRIEF_WAIT, "KEEP_MEMORY": "1"},
}
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY", "GOMP_SPINCOUNT")
"""The variables that say how threads wait. Those of the caller are removed."""
RETENTION = 0.22


def measure(pairs: int, warm_ups: int = 4) -> dict[str, float]:
    """Measure in this process. Return the medians of the times, of their ratio and of the page faults."""
    if os.environ.get("KEEP_MEMORY"):
        from trio_profile.process import prepare

        prepare()
    from trio_core import methods, prune
    from trio_profile.inputs.workload import build
    from trio_profile.profilers.clock import clock_for
    from trio_profile.profilers.rounds import run
    from trio_profile.records.schema import Study

    workload = build(Study(model="pocket", retentions=(RETENTION,)))
    method, clock = methods.find("trio")(retention=RETENTION), clock_for(workload.device)
    found: list[tuple[float, float, int]] = []
    for pair in range(warm_ups + pairs):
        times: dict[bool, float] = {}
        faults = 0
        for is_pruned in (False, True) if pair % 2 else (True, False):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            if is_pruned:
                with prune(workload.model, method):
                    times[is_pruned] = run(workload, clock).prefill_ms
            else:
                times[is_pruned] = run(workload, clock).prefill_ms
                faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        found.append((times[False], times[True], faults))
    measured = found[warm_ups:]
    return {
        "dense_ms": statistics.median(dense for dense, _, _ in measured),
        "pruned_ms": statistics.median(pruned for _, pruned, _ in measured),
        "speedup": statistics.median(dense / pruned for dense, pruned, _ in measured),
        "dense_faults": statistics.median(faults for _, _, faults in measured),
    }


def in_fresh_process(variant: str, threads: int, pairs: int) -> dict[str, float]:
    """The same in a fresh process."""
    variables = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    variables |= {**VARIANTS[variant], "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "tests.benchmarks.fresh_processes", "--child", "--pairs", str(pairs)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure all variants in turn, print a table and write all medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=7, help="processes of each variant")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--pairs", type=int, default=25, help="pairs in a process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.pairs)))
        return
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    for number in range(given.processes):
        first = number % len(VARIANTS)
        for variant in [*VARIANTS][first:] + [*VARIANTS][:first]:
            found[variant].append(in_fresh_process(variant, given.threads, given.pairs))
    for variant, seen in found.items():
        print(f"{variant:26} {_told(seen)}")


def _told(seen: list[dict[str, float]]) -> str:
    """What the processes of one variant found, in one line."""
    ratios = sorted(one["speedup"] for one in seen)
    faults = sorted(one["dense_faults"] for one in seen)
    dense, pruned = (statistics.median(one[name] for one in seen) for name in ("dense_ms", "pruned_ms"))
    spread = statistics.stdev(ratios) / statistics.mean(ratios)
    return (
        f"speed-up {ratios[0]:.3f} … {ratios[-1]:.3f} (range {ratios[-1] / ratios[0] - 1:.1%}, standard deviation "
        f"{spread:.1%}), dense {dense:.0f} ms, pruned {pruned:.0f} ms, page faults {faults[0]:.0f} … {faults[-1]:.0f}"
    )


if __name__ == "__main__":
    main()
