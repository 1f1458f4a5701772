"""How often the gate catches a planted slow-down when base and new run in turn, and in what time.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.gates_in_turn --pairs 10 --slower 0.05 --seconds 24

Each comparison starts two processes that prefill `pocket` with TRIO at 11 %, one of them slowed by a share of its CPU
time, and judges them by the rule of `trio_gate`: two more processes follow unless the verdict is good.
"""

import argparse
import time
from collections import Counter
from contextlib import closing
from math import nan
from pathlib import Path
from typing import Any

from trio_profile.gate.rival_worker import prefill
from trio_profile.gate.rivals import WARMUPS, Worker, in_turn
from trio_profile.gate.verdict import Times, Verdict, settle, settle_twice
from trio_profile.process import prepare

ROOT = Path(__file__).parents[2]


def burn(milliseconds: float) -> None:
    """Use the CPU in this thread for so long. Time in which the thread has no CPU does not count."""
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        pass


class slowed(prefill):
    """The default workload, slowed by a share of its CPU time. share: of each run; 0 in the base."""

    def __init__(self, share: float = 0.0, **arguments: Any):
        super().__init__(**arguments)
        self.share = share
        self()

    def __call__(self) -> float:
        """Milliseconds of one prefill, with the time that is burnt."""
        begin = time.process_time()
        ms = super().__call__()
        start = time.perf_counter_ns()
        burn(self.share * 1000 * (time.process_time() - begin))
        return ms + (time.perf_counter_ns() - start) / 1e6


def settle_once(seconds: float, share: float, clock: str, seed: int, earlier: Times) -> tuple[Verdict, Times]:
    """Settle with one pair of processes, after at most so many seconds of sampling."""

    workload = "tests.benchmarks.gates_in_turn:slowed"
    sides = [
        Worker(name, ROOT, ROOT, workload, {"share": slower}, time=clock)
        for name, slower in (("base", 0.0), ("new", share))
    ]
    with closing(sides[0]), closing(sides[1]):
        for side in sides:
            side.ready()
        run_pairs = in_turn(sides[0].run, sides[1].run, seed)
        run_pairs(WARMUPS)
        return settle(run_pairs, clock, "pocket", pairs=10_000, seconds=seconds, earlier=earlier)


def main() -> None:
    """Print the verdicts and the wall time of a comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--slower", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=22.0)
    parser.add_argument("--clock", choices=("ms", "cpu_ms"), default="cpu_ms")
    options = parser.parse_args()
    prepare()
    verdicts, start = Counter[str](), time.monotonic()
    for seed in range(options.pairs):
        begin = time.monotonic()

        def once(number: int, earlier: Times, seed: int = seed) -> tuple[Verdict, Times]:
            return settle_once(options.seconds, options.slower, options.clock, 2 * seed + number, earlier)

        verdict, _ = settle_twice(once)
        verdicts[verdict.verdict] += 1
        low, high = verdict.ci95 or (nan, nan)
        taken = time.monotonic() - begin
        print(f"{seed + 1}: {verdict.verdict} [{low:.3f}, {high:.3f}] after {taken:.0f} s", flush=True)
    each = (time.monotonic() - start) / options.pairs
    print(f"{options.slower:+.0%} of CPU time, judged by {options.clock}: {dict(verdicts)}; {each:.0f} s each")


if __name__ == "__main__":
    main()
