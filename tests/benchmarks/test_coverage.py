"""How often intervals hold the truth, by noise model and number of pairs: the experiment behind ratio_interval.

    .venv/bin/python -m pytest tests/benchmarks/test_coverage.py --benchmark-only --benchmark-json=coverage.json

`extra_info` holds coverages in percent and the median relative half width; 1,000 studies know a coverage to ±1.4 %.
"""

import numpy as np
import pytest

from trio_profile.stats.intervals import ratio_interval
from trio_profile.stats.noise import MODELS, pairs

STUDIES = 1000
SAMPLES = (6, 8, 12, 20, 30, 50, 100, 200)
TRUTH = 1.05


@pytest.mark.benchmark(group="coverage of 95 % intervals")
@pytest.mark.parametrize("model", MODELS)
def test_coverage(benchmark, model: str):
    coverages: dict[int, float] = {}
    half_widths: dict[int, float] = {}
    for n in SAMPLES:
        draw = np.random.default_rng([n, 1])
        bounds = np.array([ratio_interval(_ratios(draw, model, n)) for _ in range(STUDIES)])
        coverages[n] = float(100 * np.mean((bounds[:, 0] <= TRUTH) & (bounds[:, 1] >= TRUTH)))
        half_widths[n] = float(np.median(bounds[:, 1] - bounds[:, 0]) / 2 / TRUTH)
    benchmark.extra_info.update(coverage_percent=coverages, relative_half_width=half_widths, studies=STUDIES)
    benchmark(ratio_interval, _ratios(np.random.default_rng(0), model, 200))
    assert all(coverages[n] >= 93 - 1.4 for n in SAMPLES if n >= 20)


def _ratios(draw: np.random.Generator, model: str, n: int) -> np.ndarray:
    base, new = pairs(draw, model, n, TRUTH)
    return new / base
