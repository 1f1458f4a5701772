"""A prefill of `pocket`, dense and pruned, for tools that time a call: torch, pytest-benchmark and pyperf.

    python -m tests.benchmarks.timed_prefill torch dense pruned --seconds 6     medians, as JSON
    python -m tests.benchmarks.timed_prefill pyperf pruned -o FILE …            pyperf's own options follow
    SIDE=dense python -m pytest tests/benchmarks/timed_prefill.py -p no:xdist --benchmark-json FILE

METHOD and RETENTION in the environment say what prunes: `trio` and 0.33 without them.
"""

import json
import os
import sys
from collections.abc import Callable


def prefill(side: str) -> Callable[[], object]:
    """Return a call that runs one prefill of the model: `dense`, or `pruned`. It has run three times."""
    from trio_core import methods, prune
    from trio_profile.inputs.workload import build
    from trio_profile.records.schema import Study

    workload = build(Study(model="pocket"))
    method = methods.find(os.environ.get("METHOD", "trio"))(retention=float(os.environ.get("RETENTION", "0.33")))

    def pruned() -> object:
        with prune(workload.model, method):
            return workload.prefill()

    call = workload.prefill if side == "dense" else pruned
    for _ in range(3):
        call()
    return call


def by_torch(sides: list[str], seconds: float) -> list[float]:
    """Return the median seconds of each side, by `torch.utils.benchmark` in this process, one after the other."""
    import torch
    from torch.utils.benchmark import Timer

    threads = torch.get_num_threads()
    timers = [Timer("call()", globals={"call": prefill(side)}, num_threads=threads) for side in sides]
    return [timer.blocked_autorange(min_run_time=seconds / len(sides)).median for timer in timers]


def test_prefill(benchmark) -> None:
    """One side for pytest-benchmark."""
    benchmark(prefill(os.environ["SIDE"]))


def main() -> None:
    """Time as the first argument says."""
    if sys.argv[1] == "torch":
        *sides, _, seconds = sys.argv[2:]
        print(json.dumps(by_torch(sides, float(seconds))))
        return
    import pyperf  # pyright: ignore[reportMissingImports] - no dependency of ours

    side = sys.argv.pop(2)
    sys.argv.pop(1)
    runner = pyperf.Runner(program_args=("-m", "tests.benchmarks.timed_prefill", "pyperf", side))
    # The driver of pyperf only starts processes: it need not load the model.
    call = prefill(side) if "--worker" in sys.argv else lambda: None
    runner.bench_func("prefill", call)


if __name__ == "__main__":
    main()
