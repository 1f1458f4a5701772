"""Measured peaks, on a clock that says how long each try took."""

import pytest
import torch

from trio_profile.profilers import roofline
from trio_profile.profilers.roofline import Roofline


class Scripted:
    """Pairs of marks so many ms apart: five products, then five copies."""

    def __init__(self, spans: list[float]):
        self.spans, self.now, self.begun = spans, 0.0, False

    def mark(self) -> float:
        if self.begun:
            self.now += self.spans.pop(0)
        self.begun = not self.begun
        return self.now

    def elapsed_ms(self, start: float, end: float) -> float:
        return end - start


def test_a_peak_is_the_best_of_its_tries(monkeypatch):
    monkeypatch.setitem(roofline._SIDE, "cpu", 10)
    monkeypatch.setitem(roofline._BYTES, "cpu", 1000)
    clock = Scripted([5, 4, 2, 4, 9, 8, 1, 7, 7, 7])
    found = roofline.measure(torch.device("cpu"), torch.float32, clock=clock)
    assert found == Roofline(2 * 10**3 / 0.002, 2 * 1000 / 0.001)


def test_the_least_time_is_the_longer_of_work_and_bytes():
    peaks = Roofline(flops_per_second=1e12, bytes_per_second=1e9)
    assert peaks.least_ms(5e9, 1e6) == pytest.approx(5)
    assert peaks.least_ms(5e9, 1e8) == pytest.approx(100)
