from math import log

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from trio_profile.stats.crossing import exact_break_even, first_crossing, measured_break_even
from trio_profile.stats.two_way import Centre

X = (0.2, 0.4, 0.6, 0.8)


def around(*ratios: float, error: float = 0.001) -> list[Centre]:
    """Centres with this error each. Their 95 % interval reaches 2.04 errors to both sides."""
    return [Centre(log(ratio), error, 30, 24, 8) for ratio in ratios]


def test_the_crossing_is_the_one_worked_out_by_hand():
    found = exact_break_even(X, [50, 80, 120, 160], dense=100)
    assert (found.status, found.retention) == ("crossing", pytest.approx(0.5))
    assert found.ci95 == pytest.approx((0.5, 0.5)) and found.certain_gain == found.certain_loss == found.retention
    assert exact_break_even(X, [50, 80, 100, 160], dense=100).retention == pytest.approx(0.6)
    assert first_crossing(np.array(X), np.array([-0.5, -0.2, 0.2, 0.6])) == pytest.approx(0.5)


def test_a_dip_by_noise_gives_no_second_crossing():
    fit = isotonic_regression([90, 105, 97, 120]).x
    assert fit.tolist() == [90, 101, 101, 120]
    assert exact_break_even(X, [90, 105, 97, 120], dense=100).retention == pytest.approx(0.2 + 0.2 * 10 / 11)


def test_a_cost_on_one_side_of_dense_is_always_or_never():
    always, never = exact_break_even(X, [50, 60, 70, 99], dense=100), exact_break_even(X, [101, 110, 120, 130], 100)
    assert (always.status, always.certain_gain, always.certain_loss) == ("always", 0.8, None)
    assert (never.status, never.certain_gain, never.certain_loss) == ("never", None, 0.2)
    assert always.measured == never.measured == (0.2, 0.8)


def test_three_ranges_by_hand():
    """Error 2 %, so a limit is 1.0417 times as far out. Its lines are 0.2 long."""
    out = 1.04166
    cases = (
        ((0.5, 0.6, 0.7, 0.9), "always", 0.8, None),
        ((1.1, 1.2, 1.3, 1.4), "never", None, 0.2),
        ((0.5, 0.8, 1.2, 1.6), "crossing", 0.4 + (1 - 0.8 * out) / (2 * out), 0.4 + (1 - 0.8 / out) / (2 / out)),
        ((0.5, 0.8, 0.97, 1.02), "gain", 0.4 + 0.2 * (1 - 0.8 * out) / (0.17 * out), None),
        ((0.98, 1.03, 1.1, 1.2), "loss", None, 0.4 + 0.2 * (1 - 1.03 / out) / (0.07 / out)),
        ((0.97, 0.99, 1.01, 1.02), "inconclusive", None, None),
    )
    for ratios, status, gain, loss in cases:
        found = measured_break_even(X, around(*ratios, error=0.02))
        assert (found.status, found.measured) == (status, (0.2, 0.8))
        for end, expected in ((found.certain_gain, gain), (found.certain_loss, loss)):
            assert end == (None if expected is None else pytest.approx(expected, abs=1e-3))
        whole = (0.2 if found.certain_gain is None else found.certain_gain, found.certain_loss or 0.8)
        assert found.ci95 == (None if status in ("always", "never") else whole)
        assert measured_break_even(X[::-1], around(*ratios[::-1], error=0.02)) == found


def test_the_first_test_that_fails_ends_the_certain_range():
    """0.6 certainly gains, but the lower 0.4 does not: nothing is said beyond it."""
    found = measured_break_even(X, [*around(0.8), *around(0.9, error=0.2), *around(0.8, 1.5)])
    assert found.status == "crossing"
    assert found.certain_gain is not None and 0.2 < found.certain_gain < 0.4
    assert found.certain_loss is not None and 0.6 < found.certain_loss < 0.8
    assert found.retention == pytest.approx(0.6 + 0.2 * (1 - 0.8333) / (1.5 - 0.8333), abs=0.01)


def test_the_crossing_is_the_fits():
    found = measured_break_even(X, around(0.5, 0.8, 1.2, 1.6))
    assert found.retention == pytest.approx(0.5)
    assert measured_break_even(X, around(0.5, 0.6, 0.7, 0.8)).retention is None
    flat = measured_break_even(X, around(0.97, 0.98, 0.99, 0.995, error=0.1))
    assert (flat.status, flat.retention) == ("inconclusive", None)


def test_without_a_measurement_nothing_is_known():
    for found in (measured_break_even((), []), exact_break_even((), [], 1)):
        assert (found.status, found.ci95, found.measured) == ("inconclusive", None, None)


def test_a_certain_range_is_wrong_in_at_most_one_of_twenty_studies():
    """Of all retentions at once: for lines that cross 1, and for one that equals 1 where every certainty is wrong."""
    draw, freedom, error = np.random.default_rng(0), 12, 0.02
    x = np.linspace(0.1, 0.9, 9)
    lines = ((0.4 + x, 0.6, 0.6), (0.98 + 0.04 * x, 0.5, 0.5), (np.ones(9), 0.0, 1.0))
    for line, gain_ends, loss_begins in lines:
        wrong, trials = 0, 800
        for _ in range(trials):
            errors = error * np.sqrt(draw.chisquare(freedom, 9) / freedom)
            logs = np.log(line) + error * draw.standard_normal(9)
            ratios = [Centre(one, own, freedom, 24, 8) for one, own in zip(logs, errors, strict=True)]
            found = measured_break_even(x.tolist(), ratios)
            wrong += (found.certain_gain or 0.0) > gain_ends or (found.certain_loss or 1.0) < loss_begins
        assert wrong / trials <= 0.05 + 0.016, (line, wrong)  # 800 trials know 5 % to ±1.5 %
