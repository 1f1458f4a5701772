import numpy as np
import pytest

from trio_profile.stats.crossing import exact_break_even, isotonic, measured_break_even

X = (0.2, 0.4, 0.6, 0.8)


def noisy(medians, n=20, spread=0.01, seed=0):
    draw = np.random.default_rng(seed)
    return [list(m * draw.lognormal(0, spread, n)) for m in medians]


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
    flat = [[0.7, 1.3, 0.8, 1.25, 0.9, 1.1] for _ in X]
    assert measured_break_even(X, flat).status == "inconclusive"
    assert measured_break_even((), []).status == "inconclusive"


def test_an_interval_that_runs_off_the_sweep_ends_at_its_end():
    found = measured_break_even(X, noisy([0.5, 0.6, 0.7, 1.0], spread=0.05))
    assert found.status == "crossing"
    assert found.ci95[1] == X[-1]


def test_a_dip_by_noise_gives_no_second_crossing():
    assert isotonic([0.9, 1.05, 0.97, 1.2]) == pytest.approx([0.9, 1.01, 1.01, 1.2])
    assert exact_break_even(X, [90, 105, 97, 120], dense=100).retention == pytest.approx(0.2 + 0.2 * 0.1 / 0.11)


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_contains_the_truth_as_often_as_it_says(seed: int):
    held, trials = 0, 60
    for trial in range(trials):
        found = measured_break_even(X, noisy([0.5, 0.8, 1.2, 1.6], spread=0.08, seed=1000 * seed + trial))
        held += found.ci95[0] <= 0.5 <= found.ci95[1]
    assert held / trials >= 0.88
