"""Sides in turn, or one run after the other: what the same work costs to the same precision, and whether verdicts hold.

    .venv/bin/python -m pytest tests/benchmarks/test_designs.py --benchmark-only --benchmark-json=designs.json

The work is one small decoder run with 20 layers or with 21, so that the truth is known: the same, or 5 % more. Ours is
a process that runs both in turn on the same weights, as a sweep runs dense and pruned, judged by the gate's rule.
Theirs is what launchers such as optimum-benchmark do: a process for each, ten warm-ups, then runs until its median is
known well enough for the ratio to be known to the same precision; without the launcher's floor of ten seconds a side,
which would only cost it more. Both verdicts hold an interval against the same bound, at 95 % and at 99 %; wall time
holds the start of the processes, too.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from trio_profile.gate.rivals import Worker
from trio_profile.gate.verdict import MAX_RATIO, decide, settle
from trio_profile.stats.intervals import median, median_interval

REPEATS = 20
PRECISION = 0.01
LEAST, MOST = 12, 192
WARMUPS = 10
WORK = """
import itertools
import time

import torch

torch.set_num_threads(1)  # a second one would wait at barriers for whoever shares the machine


class Decoder:
    def __init__(self):
        torch.manual_seed(0)
        self.weights = [(torch.randn(128, 384) / 11, torch.randn(128, 512) / 11, torch.randn(512, 128) / 23)
                        for _ in range(20)]
        self.hidden = torch.randn(1, 4, 128, 32)

    @torch.no_grad()
    def __call__(self, layers):
        start = time.perf_counter_ns()
        hidden = self.hidden
        for qkv, up, down in itertools.islice(itertools.cycle(self.weights), layers):
            flat = hidden.transpose(1, 2).reshape(1, 128, 128)
            parts = (flat @ qkv).view(1, 128, 3, 4, 32).permute(2, 0, 3, 1, 4)
            seen = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            flat = flat + seen.transpose(1, 2).reshape(1, 128, 128)
            hidden = (flat + torch.relu(flat @ up) @ down).view(1, 128, 4, 32).transpose(1, 2)
            hidden = hidden / hidden.norm(dim=-1, keepdim=True)
        return (time.perf_counter_ns() - start) / 1e6


def decoder(turns):
    run, turn = Decoder(), itertools.cycle(turns)
    return lambda: run(next(turn))
"""


def in_turn(tree: Path, base: int, new: int) -> str:
    """Base, new, new, base, and so on."""
    worker = _worker(tree, [base, new, new, base])

    def pairs(count: int) -> tuple[list[float], list[float]]:
        runs = [(worker.run(), worker.run()) for _ in range(count)]
        both = [pair[::-1] if number % 2 else pair for number, pair in enumerate(runs)]
        return [before for before, _ in both], [after for _, after in both]

    try:
        pairs(WARMUPS)
        return settle(pairs, "run_ms", "designs", precision=PRECISION, least=LEAST, most=MOST).verdict
    finally:
        worker.close()


def one_after_the_other(tree: Path, base: int, new: int) -> str:
    """All runs of base, then all of new; the ratio of their medians, whose intervals add in quadrature."""
    sides = [_alone(tree, layers) for layers in (base, new)]
    ratio = median(sides[1]) / median(sides[0])

    def interval(confidence: float) -> tuple[float, float]:
        width = sum(_half_width(times, confidence) ** 2 for times in sides) ** 0.5
        return ratio * (1 - width), ratio * (1 + width)

    return decide(interval(0.95), interval(0.99), MAX_RATIO)


def _alone(tree: Path, layers: int) -> list[float]:
    worker = _worker(tree, [layers])
    try:
        times = [worker.run() for _ in range(WARMUPS + LEAST)][WARMUPS:]
        while len(times) < MOST and _half_width(times, 0.95) > PRECISION / 2**0.5:
            times += [worker.run() for _ in range(len(times))]
        return times
    finally:
        worker.close()


def _half_width(times: list[float], confidence: float) -> float:
    low, high = median_interval(times, confidence)
    return (high - low) / 2 / median(times)


def _worker(tree: Path, turns: list[int]) -> Worker:
    return Worker("only", tree, tree / "elsewhere", "work:decoder", {"turns": turns}).ready()


@pytest.mark.benchmark(group="designs, this machine")
@pytest.mark.parametrize(("layers", "right"), [(20, "pass"), (21, "regression")])
def test_two_designs(benchmark, tmp_path: Path, layers: int, right: str):
    (tmp_path / "work.py").write_text(WORK)
    verdicts = {design: Counter[str]() for design in (in_turn, one_after_the_other)}
    seconds = dict.fromkeys(verdicts, 0.0)

    def repeat() -> None:
        for design, found in verdicts.items():
            start = time.monotonic()
            found[design(tmp_path, 20, layers)] += 1
            seconds[design] += time.monotonic() - start

    benchmark.pedantic(repeat, rounds=REPEATS)
    benchmark.extra_info.update(
        right=right,
        verdicts={design.__name__: dict(found) for design, found in verdicts.items()},
        seconds={design.__name__: round(spent, 1) for design, spent in seconds.items()},
    )
    assert verdicts[in_turn][right] >= 0.9 * REPEATS
