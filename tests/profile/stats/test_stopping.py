import time

import numpy as np
import pytest
from trio_profile.stats.stopping import decide, half_width, is_look

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import ratio_interval
from trio_profile.stats.noise import MODELS, pairs


def stop(ratios, *, precision: float = 0.01, most: int = 200):
    """(why, after how many samples), time being no object."""
    for n in range(1, len(ratios) + 1):
        why = decide(ratios[:n], 0.0, precision=precision, seconds=1.0, most=most)
        if why:
            return why, n
    return None, len(ratios)


def simulated(model: str, seed: int = 0, n: int = 200) -> list[float]:
    base, new = pairs(np.random.default_rng(seed), model, n, 1.05)
    return (new / base).tolist()


def test_equal_ratios_converge_at_the_first_look():
    assert stop([1.2] * 40) == ("converged", 24)
    assert decide([1.2] * 24, 0.0, precision=0.01, seconds=1.0, least=25) is None


def test_the_rule_looks_only_where_the_number_of_pairs_has_doubled():
    assert [pairs for pairs in range(1, 500) if is_look(pairs)] == [24, 48, 96, 192, 384]
    stops = {stop(simulated("steady", seed), precision=0.006)[1] for seed in range(20)}
    assert stops <= {24, 48, 96, 192} and len(stops) > 1


def test_sampling_ends_when_the_time_or_the_number_of_pairs_is_reached():
    noisy = [1.0, 2.0] * 4
    assert decide(noisy, 0.9, precision=0.01, seconds=1.0) is None
    assert decide(noisy, 1.0, precision=0.01, seconds=1.0) == "budget"
    assert decide(noisy, 0.0, precision=0.01, seconds=1.0, most=8) == "budget"
    assert decide([1.2] * 8, 9.0, precision=0.01, seconds=1.0) == "converged"
    assert decide(noisy[:4], 9.0, precision=0.01, seconds=1.0) is None


@pytest.mark.parametrize("model", ["steady", "heavy_tailed", "drift", "bimodal", "autocorrelated"])
def test_a_converged_interval_is_as_narrow_as_asked(model: str):
    for seed in range(20):
        ratios = simulated(model, seed)
        why, n = stop(ratios)
        assert why in ("converged", "plateau")
        if why == "converged":
            assert half_width([ratios[:n]]) <= 0.01


@pytest.mark.parametrize("model", MODELS)
def test_intervals_hold_the_truth_although_sampling_stops_where_they_are_narrow(model: str):
    held, studies = 0, 200
    for seed in range(studies):
        ratios = simulated(model, seed)
        low, high = ratio_interval([ratios[: stop(ratios, precision=0.0075)[1]]])
        held += low <= 1.05 <= high
    # 200 studies know a coverage of 95 % to ±3 %. Full size: tests/benchmarks/test_coverage.py.
    assert held / studies >= 0.92


def test_drifting_ratios_end_in_a_plateau():
    stops = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        wandering = np.exp(np.cumsum(draw.normal(0, 0.006, 200)) + draw.normal(0, 0.01, 200))
        stops.append(stop(wandering.tolist(), precision=0.001)[0])
    assert stops.count("plateau") >= 16


def test_independent_noise_rarely_looks_like_a_plateau():
    stops = [stop(simulated("steady", seed), precision=0.0001)[0] for seed in range(20)]
    assert stops.count("plateau") <= 5


def test_ratios_that_are_not_finite_are_refused():
    with pytest.raises(MeasurementError):
        decide([1.0] * 20 + [float("nan")], 0.0, precision=0.01, seconds=1.0)


def test_asking_after_every_pair_is_cheap():
    ratios = simulated("steady")
    start = time.perf_counter()
    stop(ratios, precision=0.0001)
    assert time.perf_counter() - start < 2.0
