"""What the gate's verdicts are worth: on simulated noise whose truth is known, and on this machine.

On this machine one revision is compared with itself, so every regression is a false alarm. Our verdict comes from two
processes in turn; beside it stands what is usually done with as many runs of each: one process after the other, their
means compared with a threshold of 3 %.
"""

import time
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from tests import noise
from tests.benchmarks.gate_rates import experiment, kept_promises
from trio_profile.gate.rivals import Rivals, Worker
from trio_profile.gate.verdict import MAX_RATIO, settle

COMPARISONS = 1000
REPEATS = 100
WORK = """
import time
import numpy as np

def product(n=192, times=12, slower=1.0):
    a = np.random.default_rng(0).standard_normal((n, n))
    times = round(times * slower)
    def run():
        start = time.perf_counter_ns()
        for _ in range(times):
            a @ a
        return (time.perf_counter_ns() - start) / 1e6
    return run
"""


@pytest.mark.benchmark(group="gate, simulated")
@pytest.mark.parametrize("model", noise.MODELS)
def test_false_alarms_and_power(benchmark, model: str):
    [rates] = benchmark.pedantic(lambda: list(experiment(COMPARISONS, [model], with_bound=True)), rounds=1)
    [hurried] = experiment(COMPARISONS, [model], most=12)
    benchmark.extra_info.update(rates=rates.model_dump(), false_alarms_of_twelve_pairs=hurried.false_alarms)
    assert kept_promises([rates])
    assert rates.at_bound is not None and rates.at_bound <= 0.03
    assert hurried.false_alarms <= 0.01


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text(WORK)
    return tmp_path


@pytest.mark.benchmark(group="gate, this machine")
def test_one_revision_against_itself(benchmark, tree: Path):
    """100 comparisons of nothing, by our design and by two runs one after the other."""
    ours, theirs, seconds = Counter[str](), Counter[bool](), {"ours": 0.0, "theirs": 0.0}

    def compare() -> None:
        start = time.monotonic()
        with Rivals(tree, tree, "work:product") as rivals:
            verdict = settle(rivals.sample, "run_ms", "A/A", most=96)
        middle = time.monotonic()
        means = []
        for name in ("base", "new"):
            worker = Worker(name, tree, tree, "work:product", {}).ready()
            try:
                means.append(fmean([worker.run() for _ in range(verdict.samples + 2)][2:]))
            finally:
                worker.close()
        ours[verdict.verdict] += 1
        theirs[means[1] / means[0] > MAX_RATIO] += 1
        seconds["ours"] += middle - start
        seconds["theirs"] += time.monotonic() - middle

    benchmark.pedantic(compare, rounds=REPEATS)
    benchmark.extra_info.update(
        verdicts=dict(ours), false_alarms_of_two_means=theirs[True], comparisons_made=REPEATS, seconds=seconds
    )
    assert ours["regression"] <= 1
