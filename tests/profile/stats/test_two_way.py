"""Centres of cells and processes: worked by hand, and against Student's t of scipy."""

from math import exp, hypot, log, sqrt

import numpy as np
import pytest
from scipy.stats import t

from tests.noise import MODELS, pairs, sessions
from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import MACHINE_FREEDOM
from trio_profile.stats.two_way import Centre, centre_of, centres, sum_of_parts


def groups_of(table: np.ndarray) -> list[list[list[float]]]:
    """Cells whose processes have these logarithms of the median: three rounds each, 1 % apart."""
    return [[[0.99 * exp(one), exp(one), 1.01 * exp(one)] for one in row] for row in table]


def students(logs: np.ndarray) -> tuple[float, float]:
    low, high = t.interval(0.95, len(logs) - 1, logs.mean(), logs.std(ddof=1) / sqrt(len(logs)))
    return exp(low), exp(high)


def test_a_cell_alone_has_students_interval_of_the_medians_of_its_processes():
    groups = [[1.0, 1.1, 1.2], [1.2, 1.3, 1.4], [0.9, 1.0, 1.1], [1.1, 1.2, 1.3]]
    logs = np.log([1.1, 1.3, 1.0, 1.2])
    found = centre_of(groups)
    assert found.interval() == pytest.approx(students(logs))
    assert (found.value, found.freedom, found.samples, found.processes) == (pytest.approx(exp(logs.mean())), 3, 12, 4)
    low, high = found.interval()
    assert found.half_width() == pytest.approx((high - low) / 2 / found.value)
    wider = found.interval(0.99)
    assert wider[0] < low and high < wider[1]


def test_pooled_cells_have_the_mean_variance_of_all():
    """The variance of a cell's mean is that of process and cell × process: the mean of the cells' own variances."""
    table = np.random.default_rng(0).normal(0, 0.02, (8, 5))
    found = centres(groups_of(table))
    error = sqrt(table.var(axis=1, ddof=1).mean() / 5)
    assert [one.error for one in found] == pytest.approx([error] * 8)
    assert [one.log for one in found] == pytest.approx(table.mean(axis=1))
    # Without a process effect, 8 cells of 5 processes have up to 32 degrees of freedom.
    assert len({one.freedom for one in found}) == 1 and 15 < found[0].freedom < 33


def test_an_effect_that_all_cells_share_is_known_from_the_processes_alone():
    effect = np.array([-0.03, 0.01, 0.0, 0.02])
    found = centres(groups_of(np.tile(effect, (6, 1)) + np.arange(6)[:, None]))
    for number, one in enumerate(found):
        assert one.freedom == pytest.approx(3)
        assert one.interval() == pytest.approx(students(effect + number))


def test_a_noisy_cell_keeps_a_spread_of_its_own():
    table = np.random.default_rng(1).normal(0, 0.01, (6, 8))
    table[2] *= 10
    found = centres(groups_of(table))
    assert found[2].interval() == pytest.approx(students(table[2])) and found[2].freedom == 7
    assert found[2].half_width() > 4 * max(one.half_width() for one in (*found[:2], *found[3:]))


def test_few_cells_are_not_pooled_and_neither_are_cells_of_other_processes():
    table = np.random.default_rng(2).normal(0, 0.02, (3, 5))
    for row, one in zip(table, centres(groups_of(table)), strict=True):
        assert one.interval() == pytest.approx(students(row))
    table = np.random.default_rng(3).normal(0, 0.02, (6, 5))
    cells = groups_of(table)
    late = [cell[:3] for cell in cells[4:]]  # two cells have the times of three processes only
    apart = centres([*cells[:4], *late])
    assert apart[:4] == centres(cells[:4])
    assert [one.processes for one in apart] == [5] * 4 + [3] * 2
    assert apart[5].interval() == pytest.approx(students(table[5, :3]))


def test_a_single_process_is_cut_into_neighbouring_rounds():
    draw = np.random.default_rng(4)
    for rounds, parts in ((6, 6), (7, 7), (8, 4), (24, 4), (48, 6), (201, 25)):
        values = draw.lognormal(0, 0.02, rounds)
        logs = np.log([np.median(part) for part in np.array_split(values, parts)])
        found = centre_of([values.tolist()])
        assert found.interval() == pytest.approx(students(logs))
        assert (found.samples, found.processes) == (rounds, 1)


def test_the_machine_adds_its_own_error():
    groups = groups_of(np.random.default_rng(5).normal(0, 0.01, (1, 6)))[0]
    alone, aware = centre_of(groups), centre_of(groups, 0.0125)
    assert aware.error == pytest.approx(hypot(alone.error, 0.0125)) and aware.log == alone.log
    freedom = aware.error**4 / (alone.error**4 / 5 + 0.0125**4 / MACHINE_FREEDOM)  # Satterthwaite's
    assert aware.freedom == pytest.approx(freedom)


def test_a_single_number_says_next_to_nothing_and_equal_ones_have_no_width():
    low, high = centre_of([[1.25]]).interval()
    assert (low, high) == pytest.approx((0.0125, 125))
    for groups in ([[1.25] * 30], [[1.25] * 3] * 4):
        assert centre_of(groups).interval() == pytest.approx((1.25, 1.25))
    assert centres([[[1.25] * 3] * 4] * 5)[0].interval() == pytest.approx((1.25, 1.25))


def test_samples_without_an_interval_are_refused():
    for groups in ([], [[]], [[1.0, float("nan")]], [[1.0] * 20, []], [[1.0], [float("inf")]], [[0.0, 1.0]], [[-1.0]]):
        with pytest.raises(MeasurementError, match="measure again"):
            centre_of(groups)


def test_centres_are_inverted_divided_and_added():
    first, other = Centre(log(2), 0.03, 5, 20, 6), Centre(log(4), 0.04, 10, 12, 8)
    low, high = first.interval()
    assert first.inverse().interval() == pytest.approx((1 / high, 1 / low))
    ratio = first.over(other)
    assert (ratio.value, ratio.error) == (pytest.approx(0.5), pytest.approx(0.05))
    assert ratio.freedom == pytest.approx(0.05**4 / (0.03**4 / 5 + 0.04**4 / 10))
    assert (ratio.samples, ratio.processes) == (12, 6)
    # A quarter of 6 is 2 with an error of 3 %, and the rest has 4 %: they err together.
    total = sum_of_parts([(0.25, first), (0.75, other)], 6)
    assert (total.value, total.error, total.freedom) == (pytest.approx(6), pytest.approx(0.0375), 5)


@pytest.mark.slow
def test_intervals_hold_the_truth_under_every_noise():
    """Ten cells in eight processes of six rounds, and one process alone. tests/benchmarks/test_coverage.py has more."""
    for number, model in enumerate(MODELS):
        draw, held, alone = np.random.default_rng(number), 0, 0
        for _ in range(40):
            cells = [[list(one) for one in sessions(draw, model, [6] * 8, 1.05)] for _ in range(10)]
            held += sum(low <= 1.05 <= high for low, high in (one.interval() for one in centres(cells)))
            base, new = pairs(draw, model, 24, 1.05)
            low, high = centre_of([list(new / base)]).interval()
            alone += low <= 1.05 <= high
        # 400 intervals know a coverage of 95 % to ±2.1 %, 40 to ±7 %.
        assert held / 400 >= 0.925 and alone / 40 >= 0.82, (model, held, alone)
