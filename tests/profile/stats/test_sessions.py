"""Two sides that were measured apart from each other."""

import numpy as np
import pytest
from scipy.stats import ttest_ind
from trio_profile.stats.sessions import USUAL_SPREAD, known_spread, log_mean, quotient

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import session_interval
from trio_profile.stats.noise import MODELS, sessions


def test_sides_of_several_sessions_have_welchs_interval():
    base = [[1.0], [1.1], [1.2]]
    new = [[1.3], [1.5], [1.2], [1.4], [1.3]]
    ratio, ends = quotient(log_mean(base), log_mean(new), confidence=0.9)
    first, second = (np.log([group[0] for group in side]) for side in (base, new))
    oracle = ttest_ind(second, first, equal_var=False).confidence_interval(0.9)
    assert np.log(ratio) == pytest.approx(second.mean() - first.mean())
    assert np.log(ends) == pytest.approx([oracle.low, oracle.high])


def test_one_session_has_the_error_of_its_own_interval():
    values = np.random.default_rng(0).lognormal(0, 0.02, 48).tolist()
    side = log_mean([values])
    low, high = session_interval(values)
    assert side.sessions == 1 and side.session_spread is None
    assert 1.9 < np.log(high / low) / 2 / side.error < 3.3


def test_a_known_spread_between_sessions_widens_a_side():
    side = log_mean([np.random.default_rng(0).lognormal(0, 0.02, 48).tolist()])
    wider = side.with_spread(0.02, freedom=9)
    assert wider.error == pytest.approx(np.hypot(side.error, 0.02)) and wider.centre == side.centre
    assert 9 < wider.freedom < 9 + side.freedom


def test_a_time_of_zero_is_refused():
    with pytest.raises(MeasurementError, match="measure again"):
        log_mean([[1.0, 0.0, 1.0]])


def test_sides_that_do_not_vary_have_an_interval_without_width():
    side = log_mean([[2.0] * 30])
    assert quotient(side, log_mean([[3.0] * 30])) == (pytest.approx(1.5), pytest.approx((1.5, 1.5)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [1, 4])
def test_two_equal_sides_differ_as_rarely_as_the_interval_says(model: str, count: int):
    draw = np.random.default_rng(count)
    factors = np.ones(1) if count == 1 else None  # one session does not know the spread between sessions
    held = 0
    for _ in range(200):
        base, new = (log_mean(sessions(draw, model, [30] * count, 1.05, factors)) for _ in range(2))
        low, high = quotient(base, new)[1]
        held += low <= 1 <= high
    # 200 comparisons know a coverage of 95 % to ±3 %.
    assert held / 200 >= 0.92


def test_the_state_of_the_machine_widens_a_side():
    side = log_mean([[1.0], [1.1], [1.2]])
    assert side.with_machine(0.0) == side
    assert side.with_machine(0.01).error == pytest.approx(np.hypot(side.error, 0.01))


def test_the_spread_between_sessions_is_pooled_over_both_sides():
    narrow, wide, single = [[1.0], [np.exp(0.02)]], [[1.0], [np.exp(0.04)]], [[5.0, 5.0]]
    # The variances of two numbers that differ by d are d² / 2.
    assert known_spread([narrow, wide]) == pytest.approx((np.sqrt((0.02**2 + 0.04**2) / 4), 2))
    assert known_spread([narrow, single]) == pytest.approx((0.02 / np.sqrt(2), 1))


def test_without_several_sessions_the_spread_is_that_of_this_tool():
    assert known_spread([[[1.0, 1.1]], [[1.0]]]) == USUAL_SPREAD
