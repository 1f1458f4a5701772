import numpy as np
import pytest

from tests.noise import MODELS, SESSION_SPREAD, pairs, sessions


@pytest.mark.parametrize("model", MODELS)
def test_factors_are_positive_with_median_1(model: str):
    generator = np.random.default_rng(0)
    medians = [np.median(MODELS[model](generator, 50)) for _ in range(2000)]
    assert np.median(medians) == pytest.approx(1, abs=0.001)
    assert MODELS[model](generator, 50).min() > 0
    assert MODELS[model](generator, 1).shape == (1,)


@pytest.mark.parametrize("model", MODELS)
def test_the_ratio_of_pairs_is_the_one_asked_for(model: str):
    generator = np.random.default_rng(1)
    ratios = [new / base for base, new in (pairs(generator, model, 50, 1.05) for _ in range(1000))]
    assert np.median(ratios) == pytest.approx(1.05, abs=0.001)


def test_each_model_has_the_fault_it_is_named_for():
    draws = {model: np.log(MODELS[model](np.random.default_rng(3), 4000)) for model in MODELS}
    lag_1 = {model: np.corrcoef(x[1:], x[:-1])[0, 1] for model, x in draws.items()}
    assert lag_1["autocorrelated"] == pytest.approx(0.5, abs=0.05)
    assert abs(lag_1["steady"]) < 0.05
    assert abs(np.corrcoef(draws["drift"], np.arange(4000))[0, 1]) > 0.5
    assert draws["heavy_tailed"].max() > 0.2
    slow = draws["bimodal"] > 0.04
    assert slow.mean() == pytest.approx(0.3, abs=0.03)


def test_sessions_differ_by_a_constant_factor_each():
    draw = np.random.default_rng(0)
    medians = np.array([np.median(found) for found in sessions(draw, "steady", [400] * 300, 1.05)])
    assert np.median(medians) == pytest.approx(1.05, rel=0.005)
    assert np.log(medians).std() == pytest.approx(SESSION_SPREAD, rel=0.15)
    assert [len(found) for found in sessions(draw, "steady", [3, 5], 1.05)] == [3, 5]
