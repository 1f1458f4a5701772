"""Expected times, from a pace that is given."""

import pytest
from trio_profile.studies.duration import FIXED_SHARE, Pace, cost_share

from tests.profile.examples import shape
from tests.profile.studying import make, plan
from trio_profile.profilers.fidelity import SEEDS

PACE = Pace(generation=1.0, count=4.0, questions=10.0)


def test_a_pruned_run_costs_its_fixed_part_and_its_tokens():
    sizes = shape()
    (full,) = plan(make(methods=("grid",), retentions=(1.0,)), sizes)
    (half,) = plan(make(methods=("grid",), retentions=(0.5,)), sizes)
    assert cost_share(full, sizes) == pytest.approx(1.0)
    tokens = (0.5 * 576 + 60) / (576 + 60)
    assert cost_share(half, sizes) == pytest.approx(FIXED_SHARE + (1 - FIXED_SHARE) * tokens, abs=1e-3)


def test_pairs_take_the_time_that_is_asked_for_or_the_least_number_of_pairs():
    (planned,) = plan(make(methods=("grid",), retentions=(1.0,)), shape())
    warm_up = 1.5 * 2.0
    assert PACE.parts(planned, shape(), 0.01, 6) == pytest.approx((4.0, 10.0, warm_up + 6 * 2.0))
    assert PACE.parts(planned, shape(), 100.0, 6) == pytest.approx((4.0, 10.0, warm_up + 100.0))


def test_a_method_that_selects_at_random_answers_once_for_each_seed():
    study = make(methods=("random",), retentions=(1.0,))
    (planned,) = plan(study, shape())
    assert PACE.parts(planned, shape(), 1.0, 6)[1] == pytest.approx(10.0 * SEEDS)


def test_the_dense_model_is_counted_asked_and_shown_new_pictures():
    assert PACE.dense() == 4.0 + 13 * 1.0 + 10.0
