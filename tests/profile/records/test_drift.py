"""The drift of a machine: what is planted is found, and an oracle solves the same least squares run by run."""

import numpy as np
import pytest

from trio_profile.records import drift
from trio_profile.records.drift import drift_of

TIMES = {"": 100.0, "a": 50.0, "b": 80.0}


def one(cells: list[str], times: list[float]) -> list[float]:
    """The drift of one process."""
    [found] = drift_of([cells], [times])
    return found


def order(rounds: int, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    return [str(name) for _ in range(rounds) for name in draw.permutation(["", "", "a", "b"])]


def test_a_slow_drift_is_followed_at_each_run():
    cells = order(10)
    speed = np.exp(0.3 * np.sin(np.arange(len(cells)) / 6))
    found = one(cells, [TIMES[cell] * factor for cell, factor in zip(cells, speed, strict=True)])
    assert found == pytest.approx(100 * speed, rel=0.06)


def test_one_slow_run_hardly_changes_the_others():
    """It takes three times as long. In each of 20 orders it moves the drift at every run by less than 5 %."""
    for seed in range(20):
        cells = order(10, seed)
        noise = np.exp(0.01 * np.random.default_rng(seed).standard_normal(len(cells)))
        times = np.array([TIMES[cell] for cell in cells]) * noise
        before = one(cells, times.tolist())
        times[cells.index("a", 12)] *= 3
        assert one(cells, times.tolist()) == pytest.approx(before, rel=0.05)


def test_without_the_limit_it_is_least_squares_without_the_run_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drift, "_HUBER", 1e9)
    cells = order(4, seed=3)
    logs = np.random.default_rng(4).standard_normal(len(cells))
    effects = np.array([[cell == name for name in ("a", "b")] for cell in cells], float)
    places, walk = np.eye(len(cells)), np.diff(np.eye(len(cells)), axis=0) / drift.STEP**0.5

    def solved(design: np.ndarray, heights: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(np.vstack([design, steps]), np.append(heights, np.zeros(len(steps))), rcond=None)[0]

    both = solved(np.hstack([effects, places]), logs, np.hstack([np.zeros((len(walk), 2)), walk]))[:2]
    without = [
        solved(np.delete(places, run, 0), np.delete(logs - effects @ both, run), walk)[run] for run in range(len(cells))
    ]
    assert np.log(one(cells, np.exp(logs).tolist())) == pytest.approx(without)


def test_processes_share_their_cells_and_no_drift():
    """Both machines stand still. The second is twice as slow, and has no dense run at its first moment."""
    first, second = order(3), ["a", "b", "", "", "a", "b"]
    times = [[TIMES[cell] for cell in first], [2 * TIMES[cell] for cell in second]]
    found = drift_of([first, second], times)
    assert found[0] == pytest.approx([100.0] * len(first)) and found[1] == pytest.approx([200.0] * 6)
