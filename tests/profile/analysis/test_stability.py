"""Sound cells are left alone, planted faults are found; doubts name number, threshold and next step."""

from collections import Counter

import numpy as np
import pytest

from tests.profile.examples import dense, failed, study
from trio_profile.analysis.stability import doubts
from trio_profile.errors import MeasurementError
from trio_profile.records.schema import Cell, Measurement, Pair
from trio_profile.stats.noise import MODELS, pairs

CELLS = 150


def cell(dense, pruned, retention: float = 0.5, *, first=None, clocks=None, **fields) -> Measurement:
    """A finished cell of these relative times; dense takes 100 ms and pruned 80."""
    n = len(dense)
    first = np.arange(n) % 2 == 0 if first is None else first
    timed = tuple(
        Pair(
            dense_first=bool(first[i]),
            dense_prefill_ms=100 * dense[i],
            dense_total_ms=200,
            prefill_ms=80 * pruned[i],
            total_ms=150,
            clock_mhz=None if clocks is None else clocks[i],
        )
        for i in range(n)
    )
    fields = {"stopped": "converged", **fields}
    return Measurement(cell=Cell(method="trio", retention=retention), status="done", pairs=timed, **fields)


def kinds(*measurements: Measurement) -> list[str]:
    return [doubt.kind for doubt in doubts(study(), measurements)]


def simulated(model: str = "steady", seed: int = 0, n: int = 40):
    return pairs(np.random.default_rng(seed), model, n, 1.0)


def test_steady_cells_are_not_doubted():
    raised = Counter(kind for seed in range(CELLS) for kind in set(kinds(cell(*simulated(seed=seed)))))
    # At most 2 % per kind; 150 cells know that to ±2.3 %.
    assert all(count <= 0.043 * CELLS for count in raised.values()), raised


@pytest.mark.parametrize("model", ["heavy_tailed", "recorded"])
def test_heavy_tails_raise_no_doubt_about_modes_or_order(model: str):
    raised = Counter(kind for seed in range(CELLS) for kind in set(kinds(cell(*simulated(model, seed)))))
    assert max(raised["multimodality"], raised["order"], raised["autocorrelation"]) <= 0.05 * CELLS


def ramp(dense, pruned, draw):
    return {"dense": dense, "pruned": pruned * np.linspace(1, 1.06, len(pruned))}


def cooling(dense, pruned, draw):
    shared = np.linspace(1.08, 1, len(dense))
    return {"dense": dense * shared, "pruned": pruned * shared}


def two_states(dense, pruned, draw):
    return {"dense": MODELS["bimodal"](draw, len(dense)), "pruned": pruned}


def carried_over(dense, pruned, draw):
    first = draw.random(len(dense)) < 0.5
    return {"dense": dense * np.where(first, 1.05, 1), "pruned": pruned, "first": first}


def sticky(dense, pruned, draw):
    # Four pairs in a row share a disturbance three times as large as their own.
    return {"dense": dense * np.repeat(np.exp(draw.normal(0, 0.05, -(-len(dense) // 4))), 4), "pruned": pruned}


def foreign(dense, pruned, draw):
    return {"dense": dense, "pruned": pruned * np.where(draw.random(len(dense)) < 0.5, 1.25, 1)}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ramp, "drift"),
        (cooling, "drift"),
        (two_states, "multimodality"),
        (carried_over, "order"),
        (sticky, "autocorrelation"),
        (foreign, "spread"),
    ],
)
def test_planted_faults_are_found(fault, kind: str):
    found = 0
    for seed in range(60):
        planted = fault(*simulated(seed=seed, n=60), np.random.default_rng([seed, 1]))
        found += kind in kinds(cell(**planted))
    assert found >= 0.95 * 60


def test_few_pairs_and_a_spent_budget_name_the_time_that_would_be_enough():
    dense, pruned = simulated()
    (few,) = doubts(study(), [cell(dense[:5], pruned[:5])])
    assert (few.kind, few.found, few.threshold) == ("samples", 5, 6)
    (wide,) = doubts(study(cell_seconds=5.0), [cell(dense[:8], pruned[:8], stopped="budget")])
    assert wide.kind == "budget"
    assert wide.found > wide.threshold == 0.01
    assert "8 pairs" in wide.sentence and "±1.0 %" in wide.sentence
    assert wide.next_step.startswith("raise --seconds to ")
    (hopeless,) = doubts(study(precision=0.0001), [cell(dense, pruned, stopped="plateau")])
    assert "close other work" in hopeless.next_step


def test_a_cell_on_a_slower_machine_stands_out():
    cells = [cell(*simulated(seed=i), retention=i / 10) for i in range(1, 6)]
    assert kinds(*cells) == []
    dense, pruned = simulated(seed=6)
    (doubt,) = doubts(study(), [*cells, cell(1.06 * dense, 1.06 * pruned, retention=0.6)])
    assert (doubt.kind, doubt.cell.retention) == ("machine", 0.6)
    assert "nvidia-smi -lgc" in doubt.next_step


def test_slow_clocks_and_discarded_pairs_are_counted():
    dense, pruned = simulated(seed=3)
    (doubt,) = doubts(study(), [cell(dense, pruned, clocks=[1980] * 38 + [1400] * 2, discarded=3)])
    assert (doubt.kind, doubt.found) == ("clock", pytest.approx(5 / 43))
    assert kinds(cell(dense, pruned, clocks=[1980] * 40)) == []


def test_failed_and_constant_cells_are_not_doubted():
    assert kinds(failed(), cell([1.0] * 20, [1.0] * 20)) == []
    assert kinds() == []


def test_times_of_zero_are_refused():
    with pytest.raises(MeasurementError, match=r"trio at 50\.0 % has a time of 0 ms"):
        kinds(cell([1.0, 0.0] * 4, [1.0] * 8))


def test_a_cached_picture_is_found():
    """Distinct pictures 30 % slower than the repeated one; 5 % are no doubt, nor are too few."""

    def seen(ratios) -> list[str]:
        held = dense().model_copy(update={"distinct_ratios": tuple(ratios)})
        return [doubt.kind for doubt in doubts(study(), [], held)]

    assert seen([1.3, 1.28, 1.33, 1.3, 1.29, 1.31, 1.3, 1.27]) == ["cached"]
    assert seen([1.05, 1.04, 1.06, 1.05, 1.05, 1.04]) == []
    assert seen([1.0, 1.5, 0.9, 1.4, 0.95, 1.2]) == []
    assert seen([1.3] * 5) == []
    assert seen([]) == []


def test_other_processes_on_the_gpu_raise_a_doubt_and_a_slow_clock_names_its_reason():
    steadily = np.ones(20)
    seen = cell(steadily, steadily, discarded=3, slowed_by=("power limit",), strangers=2)
    by_kind = {doubt.kind: doubt for doubt in doubts(study(), [seen])}
    assert set(by_kind) == {"clock", "strangers"}
    assert "2 other processes" in by_kind["strangers"].sentence
    assert "(power limit)" in by_kind["clock"].sentence
