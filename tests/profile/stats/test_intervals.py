import numpy as np
import pytest
from scipy.stats import binomtest, rankdata, t

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import (
    MACHINE_SPREAD,
    centre,
    difference_interval,
    machine_spread,
    mean_interval,
    median,
    median_interval,
    quantile_interval,
    ranks_of,
    ratio_interval,
    relative_half_width,
    share_interval,
)
from trio_profile.stats.noise import MODELS, pairs, sessions


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


def test_half_width_is_relative_to_the_median():
    values = [9.0, 10.0, 10.0, 10.0, 10.0, 11.0]
    assert median(values) == 10
    assert relative_half_width(values) == pytest.approx(0.1)


@pytest.mark.parametrize("n", [6, 15, 40])
def test_the_interval_holds_the_median_of_skewed_noise(n: int):
    draw = np.random.default_rng(0)
    truth = np.exp(0.0)
    held = 0
    for _ in range(2000):
        low, high = median_interval(draw.lognormal(0, 0.5, n))
        held += low <= truth <= high
    assert held / 2000 >= 0.94


def test_ranks_equal_scipys():
    for values in ([3.0, 1.0, 2.0], [1.0, 1.0, 0.5, 2.0, 1.0], [5.0] * 4, [0.1]):
        assert ranks_of(values).tolist() == rankdata(values).tolist()


def test_ratio_interval_holds_the_median_and_ignores_the_scale():
    ratios = np.random.default_rng(0).lognormal(0, 0.02, 40)
    low, high = ratio_interval([ratios])
    assert ratios.min() < low < np.median(ratios) < high < ratios.max()
    assert ratio_interval([3 * ratios]) == pytest.approx((3 * low, 3 * high))
    assert ratio_interval([ratios]) == (low, high)
    wider = ratio_interval([ratios], confidence=0.99)
    assert wider[0] < low and high < wider[1]


@pytest.mark.parametrize("n", [1, 2, 5, 6, 8, 11])
def test_few_ratios_have_a_wider_interval_than_that_of_the_sign_test(n: int):
    for seed in range(50):
        ratios = np.random.default_rng(seed).lognormal(0, 0.02, n)
        low, high = ratio_interval([ratios])
        exact = median_interval(ratios.tolist())
        assert low <= exact[0] and exact[1] <= high


def test_few_times_of_any_sign_are_stretched_too():
    low, high = ratio_interval([[-1.0, 0.0, 1.0]])
    assert (low, high) == pytest.approx((-(4**0.6), 4**0.6))


def test_ratios_that_do_not_vary_have_no_width():
    assert ratio_interval([[1.25] * 30]) == (1.25, 1.25)
    assert ratio_interval([[1.25] * 3]) == pytest.approx((1.25, 1.25))


@pytest.mark.parametrize("groups", [[], [[]], [[1.0, float("nan"), 1.0]], [[1.0] * 20, []], [[1.0], [float("inf")]]])
def test_samples_without_an_interval_are_refused(groups):
    with pytest.raises(MeasurementError, match="measure again"):
        ratio_interval(groups)


def test_similar_neighbours_widen_the_interval():
    draw = np.random.default_rng(2)
    sticky = np.repeat(draw.normal(1, 0.01, 15), 4)
    shuffled = draw.permutation(sticky)
    assert np.diff(ratio_interval([sticky]))[0] > 1.4 * np.diff(ratio_interval([shuffled]))[0]


def test_neighbours_that_alternate_do_not_narrow_the_interval():
    values = np.arange(1.0, 41.0)
    alternating = np.stack([values[:20], values[20:]], axis=1).ravel()
    # For independent samples the rank of the median has a standard deviation of √40 / 2, which is 3.2.
    low, high = ratio_interval([alternating])
    assert high - low >= 2 * 1.96 * 3.16


def test_from_the_first_look_on_an_interval_pays_for_the_looks():
    ratios = np.random.default_rng(3).permutation(np.linspace(0.99, 1.01, 24)).tolist()
    paid, unpaid = ratio_interval([ratios]), ratio_interval([ratios[:23]])
    assert np.diff(paid)[0] > np.diff(unpaid)[0] * (23 / 24) ** 0.5


def test_several_sessions_have_students_t_interval_of_their_medians():
    groups = [[1.0, 1.1, 1.2], [1.2, 1.3, 1.4], [0.9, 1.0, 1.1], [1.1, 1.2, 1.3]]
    logs = np.log([1.1, 1.3, 1.0, 1.2])
    oracle = t.interval(0.95, 3, logs.mean(), logs.std(ddof=1) / 2)
    assert ratio_interval(groups) == pytest.approx(np.exp(oracle))
    assert centre(groups) == pytest.approx(np.exp(logs.mean()))


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_the_interval_of_several_sessions_holds_what_the_next_session_is_part_of(count: int):
    draw = np.random.default_rng(count)
    held = 0
    for _ in range(400):
        low, high = ratio_interval(sessions(draw, "steady", [24] * count, 1.05))
        held += low <= 1.05 <= high
    # 400 studies know a coverage of 95 % to ±2.1 %.
    assert held / 400 >= 0.95 - 0.021


@pytest.mark.parametrize("spread", [0.005, 0.02, 0.05])
def test_the_interval_of_several_sessions_holds_where_they_share_a_state_of_the_machine(spread: float):
    """spread: between sessions. Student's t interval alone holds 42 % at the first spread."""
    draw, held = np.random.default_rng(7), 0
    for _ in range(1000):
        logs = MACHINE_SPREAD * draw.standard_normal() + spread * draw.standard_normal(4)
        low, high = ratio_interval([[value] * 3 for value in np.exp(logs)], machine=machine_spread("cpu"))
        held += low <= 1 <= high
    # 1000 studies know a coverage of 95 % to ±1.4 %. Where sessions spread most, it is a little lower.
    assert held / 1000 >= 0.95 - 0.02


def test_the_state_of_a_gpu_is_not_known():
    assert (machine_spread("cpu"), machine_spread("cuda:1")) == (MACHINE_SPREAD, 0.0)


def _answers(draw: np.random.Generator, pictures: int, each: int, alike: float, right: float = 0.8):
    """Answers to `each` questions on each picture. With probability `alike` they are all those of the first."""
    answers = (draw.random((pictures, each)) < right).astype(float)
    same = draw.random(pictures) < alike
    answers[same] = answers[same, :1]
    return answers.ravel(), np.repeat(np.arange(pictures), each).tolist()


def test_questions_that_share_no_picture_are_independent():
    answers, _ = _answers(np.random.default_rng(0), 30, 1, 0.0)
    for interval in (share_interval, difference_interval, median_interval):
        assert interval(answers.tolist(), clusters=range(30)) == interval(answers.tolist())


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
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


def test_copies_of_a_question_add_nothing():
    few = [1.0] * 15 + [0.0] * 5
    copies, pictures = np.repeat(few, 5), np.repeat(np.arange(20), 5).tolist()
    assert np.diff(share_interval(copies, clusters=pictures))[0] >= np.diff(share_interval(few))[0]
    assert np.diff(share_interval(copies))[0] < 0.6 * np.diff(share_interval(few))[0]
    assert share_interval([1.0] * 100, clusters=pictures)[0] < share_interval([1.0] * 100)[0]


def test_questions_about_one_picture_have_finite_intervals():
    values = [i / 10 for i in range(10)]
    found = [interval(values, clusters=[0] * 10) for interval in (median_interval, mean_interval, share_interval)]
    found += [difference_interval(values, clusters=[0] * 10), quantile_interval(values, 0.95, clusters=[0] * 10)]
    assert np.isfinite(found).all()
    assert all(low < high for low, high in found)


def test_the_median_of_clusters_is_wider_than_that_of_single_samples():
    values = np.repeat(np.random.default_rng(0).lognormal(0, 0.3, 20), 5).tolist()
    low, high = median_interval(values, clusters=np.repeat(np.arange(20), 5).tolist())
    alone = median_interval(values)
    assert low < alone[0] and alone[1] < high


@pytest.mark.parametrize("model", MODELS)
def test_ratio_intervals_hold_the_truth_as_often_as_they_say(model: str):
    # 400 studies know a coverage of 95 % to ±2.1 %; 93 to 97 % at full size is tests/benchmarks/test_coverage.py's.
    for n in (20, 60):
        held = sum(low <= 1.05 <= high for low, high in _intervals(model, n, studies=400))
        assert held / 400 >= 0.93 - 0.021
        # The recorded ratios alternate a little (lag-1 correlation of signs −0.17), which is not believed.
        assert model == "recorded" or held / 400 <= 0.985 + 0.012


def _intervals(model: str, n: int, studies: int):
    draw = np.random.default_rng([n, 11])
    for _ in range(studies):
        base, new = pairs(draw, model, n, 1.05)
        yield ratio_interval([new / base])
