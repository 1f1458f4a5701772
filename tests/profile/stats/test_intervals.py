import numpy as np
import pytest
from scipy.stats import binomtest

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import (
    MACHINE_SPREAD,
    Effects,
    difference_interval,
    machine_spread,
    mean_interval,
    median_interval,
    quotient_interval,
    reach,
    share_interval,
    sum_of_errors,
    widened,
)
from trio_profile.stats.two_way import Centre


def test_the_interval_of_a_share_equals_scipys():
    for count, samples in ((0, 5), (3, 8), (24, 24), (1, 1)):
        oracle = binomtest(count, samples).proportion_ci(method="wilson")
        shares = [1] * count + [0] * (samples - count)
        assert share_interval(shares) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    with pytest.raises(MeasurementError, match="0 samples"):
        share_interval([])


def test_a_fraction_of_an_answer_counts_as_a_fraction():
    assert share_interval([0.5, 0.5, 1, 0]) == pytest.approx(share_interval([1, 1, 0, 0]))


def test_the_interval_of_a_median_follows_the_binomial_table():
    # Tabulated for 95 %: n = 6 → (1, 6), 10 → (2, 9), 20 → (6, 15), 100 → (40, 61); 1-based.
    for n, low, high in ((6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
        assert median_interval(range(1, n + 1)) == (low, high)


def test_too_few_samples_give_their_range():
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([2.0]) == (2.0, 2.0)


def test_the_state_of_a_gpu_is_not_known():
    assert (machine_spread("cpu"), machine_spread("cuda:1")) == (MACHINE_SPREAD, 0.0)


def test_errors_are_added_in_quadrature_and_their_freedom_is_satterthwaites():
    assert sum_of_errors(3, 5, 4, 10) == (5, pytest.approx(625 / (81 / 5 + 256 / 10)))
    assert sum_of_errors(3, 5, 0, 10) == (3, pytest.approx(5))
    assert sum_of_errors(0, 5, 0, 10) == (0, 5)


def test_the_interval_of_a_quotient_adds_the_distances_in_quadrature():
    ends = [(value / wide, value * wide) for value, wide in ((2.0, np.exp(0.03)), (3.0, np.exp(0.04)))]
    assert quotient_interval((2.0, 3.0), ends) == pytest.approx((1.5 * np.exp(-0.05), 1.5 * np.exp(0.05)))


def test_an_interval_that_says_nothing_is_a_number_however_little_was_measured():
    """Two samples and a hundred comparisons: without a bound the ends lie beyond the largest number."""
    unsure = Centre(log=0.1, error=0.3, freedom=1, samples=2, processes=2)
    once = unsure.interval(1 - 1e-4)
    for low, high in (once, widened(once, 100, 2, of_ratio=True), quotient_interval((1, 1), (once, once))):
        assert 0 < low < 1e-5 and 1e5 < high < 1e7
    assert unsure.interval(0.8) == pytest.approx((np.exp(0.1 - 0.3 * 3.0777), np.exp(0.1 + 0.3 * 3.0777)), rel=1e-4)


def _answers(draw: np.random.Generator, pictures: int, each: int, alike: float, right: float = 0.8):
    """Answers to `each` questions on each picture. With probability `alike` they are all those of the first."""
    answers = (draw.random((pictures, each)) < right).astype(float)
    same = draw.random(pictures) < alike
    answers[same] = answers[same, :1]
    return answers.ravel(), np.repeat(np.arange(pictures), each).tolist()


def test_the_interval_of_a_difference_is_the_one_worked_out_by_hand():
    """Ten pairs that agree and the two that are added: variance 2/12, so 1.96 · √(2/12/12)."""
    assert difference_interval([0.0] * 10) == pytest.approx((-0.23099, 0.23099), abs=1e-5)
    low, high = difference_interval([-1.0, -1.0, 0.0, 0.0])
    assert (low + high) / 2 == pytest.approx(-2 / 6)
    assert difference_interval([1.0])[1] == 1.0
    for bad in ([], [2.0], [float("nan")]):
        with pytest.raises(MeasurementError):
            difference_interval(bad)


def test_questions_that_share_no_picture_are_independent():
    answers, _ = _answers(np.random.default_rng(0), 30, 1, 0.0)
    for interval in (share_interval, difference_interval, median_interval):
        assert interval(answers.tolist(), clusters=range(30)) == interval(answers.tolist())


@pytest.mark.parametrize("alike", [0.5, 1.0])
def test_intervals_of_shares_and_differences_hold_where_questions_share_a_picture(alike: float):
    draw = np.random.default_rng(7)
    held = {"share": 0, "difference": 0}
    for _ in range(1000):
        answers, pictures = _answers(draw, 40, 4, alike)
        others, _ = _answers(draw, 40, 4, alike, right=0.7)
        low, high = share_interval(answers, clusters=pictures)
        held["share"] += low <= 0.8 <= high
        low, high = difference_interval(answers - others, clusters=pictures)
        held["difference"] += low - 1e-9 <= 0.1 <= high + 1e-9
    # 1,000 exams know a coverage of 95 % to ±1.4 %.
    assert min(held.values()) / 1000 >= 0.95 - 0.014


def test_questions_about_one_picture_have_finite_intervals():
    values = [i / 10 for i in range(10)]
    found = [interval(values, clusters=[0] * 10) for interval in (median_interval, mean_interval, share_interval)]
    found.append(difference_interval(values, clusters=[0] * 10))
    assert np.isfinite(found).all()
    assert all(low < high for low, high in found)


def test_the_median_of_clusters_is_wider_than_that_of_single_samples():
    values = np.repeat(np.random.default_rng(0).lognormal(0, 0.3, 20), 5).tolist()
    low, high = median_interval(values, clusters=np.repeat(np.arange(20), 5).tolist())
    alone = median_interval(values)
    assert low < alone[0] and alone[1] < high


# --- how much each question moves a score ----------------------------------------------------------------------------


def test_the_reach_of_a_mean_is_the_one_of_bonett_and_price():
    values = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], p=[0.1, 0.85, 0.05], size=400)
    low, high = difference_interval(values)
    found = reach([Effects((values - values.mean()) / 400, 1 / 400, range(400))])
    assert found == pytest.approx((high - low) / 2, rel=0.01)


def test_a_score_that_no_question_moves_still_has_a_width():
    assert reach([Effects(np.zeros(10), 0.1, range(10))]) == pytest.approx(1.959964 * np.sqrt(2) * 0.1)


def test_two_scores_on_the_same_pictures_are_not_independent():
    each = np.random.default_rng(2).normal(size=100)
    each = (each - each.mean()) / 100
    alone, other = Effects(each, 1e-9, range(100)), Effects(each, 1e-9, range(100, 200))
    assert reach([alone, alone]) == pytest.approx(2 * reach([alone]), rel=0.02)
    assert reach([alone, other]) == pytest.approx(np.sqrt(2) * reach([alone]), rel=0.02)
