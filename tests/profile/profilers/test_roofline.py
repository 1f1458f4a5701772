"""Measured peaks, on a clock that says how long each try took."""

import pytest
import torch

from tests.profile.faking import FakeClock
from trio_profile.profilers import roofline
from trio_profile.profilers.roofline import Roofline


def test_a_peak_is_the_best_of_its_tries(monkeypatch):
    """Five products, then five copies; each try is a pair of marks."""
    monkeypatch.setitem(roofline._SIDE, "cpu", 10)
    monkeypatch.setitem(roofline._BYTES, "cpu", 1000)
    clock = FakeClock([step for span in (5, 4, 2, 4, 9, 8, 1, 7, 7, 7) for step in (0, span)])
    found = roofline.measure(torch.device("cpu"), torch.float32, clock=clock)
    assert found == Roofline(2 * 10**3 / 0.002, 2 * 1000 / 0.001)


def test_the_least_time_is_the_longer_of_work_and_bytes():
    peaks = Roofline(flops_per_second=1e12, bytes_per_second=1e9)
    assert peaks.least_ms(5e9, 1e6) == pytest.approx(5)
    assert peaks.least_ms(5e9, 1e8) == pytest.approx(100)
