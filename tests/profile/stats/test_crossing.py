import numpy as np
import pytest

from trio_profile.stats.crossing import contradictions, exact_break_even, measured_break_even

X = (0.2, 0.4, 0.6, 0.8)


def noisy(medians, n=20, spread=0.01, seed=0):
    """One session for each retention, with independent noise."""
    draw = np.random.default_rng(seed)
    return [[list(m * draw.lognormal(0, spread, n))] for m in medians]


def in_sessions(medians, sessions=4, spread=0.02, common=True, seed=0):
    """Several sessions for each retention. Each session has a deviation, common to all retentions or not."""
    draw = np.random.default_rng(seed)
    deviations = draw.lognormal(0, spread, (sessions, 1 if common else len(medians)))
    deviations = np.broadcast_to(deviations, (sessions, len(medians)))
    return [[list(m * d * draw.lognormal(0, 0.01, 24)) for d in deviations[:, i]] for i, m in enumerate(medians)]


def test_the_crossing_is_the_one_worked_out_by_hand():
    found = exact_break_even(X, [50, 80, 120, 160], dense=100)
    assert found.status == "crossing"
    assert found.retention == pytest.approx(0.5)
    assert found.ci95 == pytest.approx((0.5, 0.5))


def test_a_cost_equal_to_dense_is_the_crossing():
    assert exact_break_even(X, [50, 80, 100, 160], dense=100).retention == pytest.approx(0.6)


def test_a_ratio_on_one_side_of_1_is_always_or_never():
    assert exact_break_even(X, [50, 60, 70, 99], dense=100).status == "always"
    assert exact_break_even(X, [101, 110, 120, 130], dense=100).status == "never"
    assert measured_break_even(X, noisy([0.5, 0.6, 0.7, 0.8])).status == "always"
    assert measured_break_even(X, noisy([1.5, 1.6, 1.7, 1.8])).status == "never"


def test_the_range_that_was_measured_is_reported():
    assert measured_break_even(X, noisy([0.5, 0.6, 0.7, 0.8])).measured == (0.2, 0.8)
    assert exact_break_even(X, [50, 60, 70, 99], dense=100).measured == (0.2, 0.8)
    assert measured_break_even((), []).measured is None


def test_a_fit_that_stays_below_1_has_no_crossing_although_the_noise_reaches_1():
    # The paper's list of retentions on a slow machine: a speed-up of 1.12× at the last one, two of seven pairs below 1.
    retentions = (0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77)
    ratios = noisy([0.5, 0.55, 0.6, 0.66, 0.72, 0.8], n=7)
    last = [1 / speedup for speedup in (1.15, 1.13, 0.97, 1.12, 1.12, 0.95, 1.14)]
    found = measured_break_even(retentions, [*ratios, [last]])
    assert (found.status, found.retention, found.measured) == ("inconclusive", None, (0.11, 0.77))
    assert found.ci95 is not None and 0.66 < found.ci95[0] < found.ci95[1] == 0.77
    quiet = measured_break_even(retentions, [*ratios, [[1 / 1.12] * 7]])
    assert (quiet.status, quiet.retention, quiet.ci95) == ("always", None, None)


def test_a_fit_that_starts_above_1_has_no_crossing_although_the_noise_reaches_1():
    found = measured_break_even(X, [[[1.02, 0.97, 1.05, 1.01, 0.98, 1.04]], *noisy([1.2, 1.4, 1.6])])
    assert (found.status, found.retention) == ("inconclusive", None)
    assert found.ci95 is not None and found.ci95[0] == 0.2 and 0.2 < found.ci95[1] < 0.4


def test_measured_crossing_lies_in_its_interval_and_near_the_truth():
    found = measured_break_even(X, noisy([0.5, 0.8, 1.2, 1.6]))
    assert found.status == "crossing"
    low, high = found.ci95
    assert low <= found.retention <= high
    assert low <= 0.5 <= high
    assert high - low < 0.05


def test_order_of_the_retentions_does_not_matter():
    forward = measured_break_even(X, noisy([0.5, 0.8, 1.2, 1.6]))
    backward = measured_break_even(X[::-1], noisy([0.5, 0.8, 1.2, 1.6])[::-1])
    assert forward == backward


def test_noise_that_hides_the_crossing_is_inconclusive():
    flat = [[[0.7, 1.3, 0.8, 1.25, 0.9, 1.1]] for _ in X]
    assert measured_break_even(X, flat).status == "inconclusive"
    assert measured_break_even(X, flat).ci95 == (0.2, 0.8)
    assert measured_break_even((), []).status == "inconclusive"


def test_a_crossing_that_may_lie_outside_the_sweep_on_both_sides_is_inconclusive():
    wide = [[[middle * factor for factor in (0.7, 1.4, 1, 0.8, 1.3, 1)]] for middle in (0.98, 0.99, 1.01, 1.02)]
    found = measured_break_even(X, wide)
    assert (found.status, found.retention, found.ci95) == ("inconclusive", None, (0.2, 0.8))


def test_an_interval_that_runs_off_the_sweep_ends_at_its_end():
    found = measured_break_even(X, noisy([0.5, 0.6, 0.7, 1.01], spread=0.05))
    assert found.status == "crossing"
    assert found.ci95[1] == X[-1]


def test_a_dip_by_noise_gives_no_second_crossing():
    assert exact_break_even(X, [90, 105, 97, 120], dense=100).retention == pytest.approx(0.2 + 0.2 * 0.1 / 0.11)


def test_sessions_that_differ_widen_the_interval():
    alone = measured_break_even(X, [one[:1] for one in in_sessions([0.5, 0.8, 1.2, 1.6])])
    several = measured_break_even(X, in_sessions([0.5, 0.8, 1.2, 1.6]))
    assert several.status == "crossing" and np.diff(several.ci95)[0] > np.diff(alone.ci95)[0]


@pytest.mark.parametrize("ratios", ["one session", "common deviation", "deviation by retention"])
def test_the_interval_contains_the_truth_as_often_as_it_says(ratios: str):
    held, trials = 0, 200
    for trial in range(trials):
        medians = [0.5, 0.8, 1.2, 1.6]
        if ratios == "one session":
            groups = noisy(medians, spread=0.08, seed=trial)
        else:
            groups = in_sessions(medians, common=ratios == "common deviation", seed=trial)
        found = measured_break_even(X, groups)
        held += found.ci95[0] <= 0.5 <= found.ci95[1]
    # 200 trials know a coverage of 95 % to ±3 %.
    assert held / trials >= 0.92


def test_a_retention_on_the_other_side_of_1_than_the_fit_contradicts_it():
    fit_below = noisy([1.1, 0.6, 0.6, 1.1])
    assert contradictions(X, fit_below) == (X[0],)
    assert contradictions(X, noisy([0.9, 1.4, 1.4, 0.9])) == (X[3],)
    for steady in ([0.5, 0.8, 1.2, 1.6], [1.6, 1.5, 1.4, 1.3], [0.5, 0.6, 0.7, 0.8]):
        assert contradictions(X, noisy(steady)) == ()
    assert contradictions(X, [[[1.02, 0.97, 1.05, 1.01, 0.98, 1.04]], *noisy([0.6, 0.7, 0.8])]) == ()
    assert contradictions((), []) == ()
