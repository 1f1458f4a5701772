"""How much slower a dense prefill is in a process that is left alone, and how many page faults it has.

    python -m tests.benchmarks.fresh_processes --processes 7 --threads 1

Each process loads `pocket`, warms up, and takes turns between a dense and a pruned prefill (TRIO at 22 %). One variant
is left alone: no variable says how threads wait. In the other one threads spin for a moment before they sleep, and
malloc keeps its memory, as trio-profile does it (trio_profile/process.py). The variants take turns.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from statistics import median

from trio_profile.process import BRIEF_WAIT

VARIANTS = {"left alone": {}, "what trio-profile sets": {**BRIEF_WAIT, "KEEP_MEMORY": "1"}}
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY", "GOMP_SPINCOUNT")
"""The variables that say how threads wait. Those of the caller are removed."""


def measure(pairs: int, warm_ups: int = 4) -> tuple[float, float]:
    """Measure in this process. Return the medians of a dense prefill: milliseconds, and page faults."""
    if os.environ.get("KEEP_MEMORY"):
        from trio_profile.process import prepare

        prepare()
    from trio_core import methods, prune
    from trio_profile.inputs.workload import build
    from trio_profile.profilers.clock import clock_for
    from trio_profile.profilers.rounds import run
    from trio_profile.records.schema import Study

    workload = build(Study(model="pocket"))
    method, clock = methods.find("trio")(retention=0.22), clock_for(workload.device)
    found: list[tuple[float, int]] = []
    for _ in range(warm_ups + pairs):
        with prune(workload.model, method):
            run(workload, clock)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        dense_ms = run(workload, clock).prefill_ms
        found.append((dense_ms, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
    times, faults = zip(*found[warm_ups:], strict=True)
    return median(times), median(faults)


def in_fresh_process(variant: str, threads: int, pairs: int) -> tuple[float, float]:
    """The same in a fresh process."""
    variables = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    variables |= {**VARIANTS[variant], "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "tests.benchmarks.fresh_processes", "--child", "--pairs", str(pairs)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both variants in turn, and print the range of the processes' medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=7, help="processes of each variant")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--pairs", type=int, default=25, help="pairs in a process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.pairs)))
        return
    found: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    for _ in range(given.processes):
        for variant, seen in found.items():
            seen.append(in_fresh_process(variant, given.threads, given.pairs))
    for variant, seen in found.items():
        times, faults = (sorted(values) for values in zip(*seen, strict=True))
        print(f"{variant:22} dense {times[0]:.1f} … {times[-1]:.1f} ms, page faults {faults[0]:.0f} … {faults[-1]:.0f}")


if __name__ == "__main__":
    main()
