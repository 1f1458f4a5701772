"""Sound cells are left alone, planted faults are found; doubts name number, threshold and next step."""

from collections import Counter

import numpy as np
import pytest

from tests.profile.examples import dense, failed, session, study, with_pairs
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.stability import doubts
from trio_profile.records.schema import Cell, Disturbance, Measurement, Pair, Timing
from tests.noise import MODELS, pairs

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
    timing = Timing(pairs=timed, **{"stopped": "converged", **fields})
    return Measurement(cell=Cell(method="trio", retention=retention), status="done", timings=(timing,))


def found_in(*measurements: Measurement, **fields) -> list[Doubt]:
    """The doubts, except the one that every study of one process has."""
    return [doubt for doubt in doubts(study(**fields), measurements) if doubt.kind != "sessions"]


def kinds(*measurements: Measurement) -> list[str]:
    return [doubt.kind for doubt in found_in(*measurements)]


def in_sessions(*cells: Measurement) -> Measurement:
    """One cell with the times of these, each of which becomes a session."""
    timings = tuple(
        one.timings[0].model_copy(update={"session": str(number)}) for number, one in enumerate(cells, start=1)
    )
    return cells[0].model_copy(update={"timings": timings})


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
    shared = np.linspace(1.12, 1, len(dense))
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
    (few,) = found_in(cell(dense[:5], pruned[:5]))
    assert (few.kind, few.found, few.threshold) == ("samples", 5, 6)
    (wide,) = found_in(cell(dense[:8], pruned[:8], stopped="budget"), cell_seconds=5.0, precision=0.01)
    assert wide.kind == "budget"
    assert wide.found > wide.threshold == 0.01
    assert "8 pairs" in wide.sentence and "±1.0 %" in wide.sentence
    assert wide.next_step.startswith("raise --seconds to ")
    assert wide.next_step.endswith(" and measure into another --out")
    (hopeless,) = found_in(cell(dense, pruned, stopped="plateau"), precision=0.0001)
    assert "close other work" in hopeless.next_step


def test_a_cell_on_a_slower_machine_stands_out():
    cells = [cell(*simulated(seed=i), retention=i / 10) for i in range(1, 6)]
    assert kinds(*cells) == []
    dense, pruned = simulated(seed=6)
    (doubt,) = found_in(*cells, cell(1.08 * dense, 1.08 * pruned, retention=0.6))
    assert (doubt.kind, doubt.cell) == ("machine", None)
    assert "in 1 of 6 cells: +8." in doubt.sentence and "trio at 60.0 %" in doubt.sentence
    assert "nvidia-smi -lgc" in doubt.next_step


def test_slow_clocks_and_discarded_pairs_are_counted():
    dense, pruned = simulated(seed=3)
    (doubt,) = found_in(cell(dense, pruned, clocks=[1980] * 38 + [1400] * 2, discarded=3))
    assert (doubt.kind, doubt.found) == ("clock", pytest.approx(5 / 43))
    assert kinds(cell(dense, pruned, clocks=[1980] * 40)) == []


def test_failed_and_constant_cells_are_not_doubted():
    assert kinds(failed(), cell([1.0] * 20, [1.0] * 20)) == []
    assert kinds() == []


def test_a_whole_sound_study_has_a_doubt_by_chance_in_one_of_twenty():
    doubted = sum(
        bool(kinds(*(cell(*simulated(seed=1000 * number + i), retention=i / 100) for i in range(1, 21))))
        for number in range(40)
    )
    assert doubted <= 6  # 5 % of 40 is 2; more than 6 by chance in 0.3 % of all runs


def test_a_jump_between_two_processes_is_no_fault():
    """The second process is 8 % slower in both, and its speed-up is 5 % lower."""
    dense, pruned = simulated(seed=11)
    more_dense, more_pruned = simulated(seed=12)
    jump = in_sessions(cell(dense, pruned), cell(1.08 * more_dense, 1.13 * more_pruned))
    assert {doubt.kind for doubt in doubts(study(precision=0.9), [jump])} == set()


def test_the_same_drift_in_every_process_is_found():
    def drifting(seed: int) -> Measurement:
        dense, pruned = simulated(seed=seed)
        return cell(dense, pruned * np.linspace(1, 1.06, len(pruned)))

    found = doubts(study(precision=0.9), [in_sessions(*map(drifting, range(4)))])
    assert found[0].kind == "drift"
    assert "of a session" in found[0].sentence


def disturbed(measurement: Measurement, shares) -> Measurement:
    """The same cell. In pair i the threads waited for a CPU during the share i of its time."""
    seen = [
        pair.model_copy(update={"disturbance": Disturbance(seconds=0.5, delay_ms=500 * share, preemptions=3)})
        for pair, share in zip(measurement.pairs, shares, strict=True)
    ]
    return with_pairs(measurement, seen)


def test_disturbed_pairs_are_a_doubt_where_they_can_move_the_median():
    """Of 40 pairs, 1.96 · √40 = 12.4 may be disturbed."""
    sound = cell(*simulated(seed=3))
    assert kinds(disturbed(sound, [0.2] * 12 + [0.01] * 28)) == []
    (doubt,) = found_in(disturbed(sound, [0.2] * 13 + [0.01] * 27))
    assert (doubt.kind, doubt.found, doubt.threshold) == ("busy", 13 / 40, pytest.approx(0.3099, abs=1e-4))
    assert "13 of 40 pairs were disturbed" in doubt.sentence and "add up to 20 % of the time" in doubt.sentence
    assert "(in a pair: 3 preemptions)" in doubt.sentence


def test_the_doubt_about_a_busy_machine_reads_all_that_a_pair_records():
    sound = cell(*simulated(seed=3))
    seen = {"seconds": 0.5, "delay_ms": 250.0, "pressure": 0.4, "migrations": 2, "preemptions": 3, "faults": 1}
    pairs = [
        pair.model_copy(update={"disturbance": Disturbance(**seen, cpu=number % 2)})
        for number, pair in enumerate(sound.pairs)
    ]
    (doubt,) = found_in(with_pairs(sound, pairs))
    told = "(in a pair: 3 preemptions, 2 moves to another CPU, 1 page fault; CPU pressure 40 %; seen on 2 CPUs)"
    assert told in doubt.sentence


def test_the_doubt_about_a_busy_machine_promises_no_interval_of_several_processes():
    busy = [disturbed(cell(*simulated(seed=seed)), [0.2] * 30 + [0.01] * 10) for seed in range(4)]
    found = {doubt.kind: doubt for doubt in doubts(study(precision=0.9), [in_sessions(*busy)])}
    assert "disturbances may have moved the speed-up out of its interval" in found["busy"].sentence


def test_the_same_directory_takes_no_other_number_of_processes_so_the_advice_names_another_one():
    differing = [cell(dense, pruned * (1 + 0.1 * seed)) for seed in range(4) for dense, pruned in [simulated()]]
    (wide,) = doubts(study(), [in_sessions(*differing)])
    assert wide.kind == "budget"
    assert wide.next_step.startswith("raise --processes to 8 ") and "measure into another --out" in wide.next_step


def test_pressure_stands_in_where_the_delay_is_hidden():
    sound = cell(*simulated(seed=3))
    seen = [pair.model_copy(update={"disturbance": Disturbance(seconds=0.5, pressure=0.4)}) for pair in sound.pairs]
    assert kinds(with_pairs(sound, seen)) == ["busy"]
    hidden = [pair.model_copy(update={"disturbance": Disturbance(seconds=0.5)}) for pair in sound.pairs]
    assert kinds(with_pairs(sound, hidden)) == []


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
    by_kind = {doubt.kind: doubt for doubt in found_in(seen)}
    assert set(by_kind) == {"clock", "strangers"}
    assert "2 other processes" in by_kind["strangers"].sentence
    assert "(power limit)" in by_kind["clock"].sentence


def test_a_session_that_only_counted_casts_no_doubt_on_times():
    """The first process counts and asks questions; its machine may be busy."""
    one = cell([1.0] * 24, [1.0] * 24)
    timed = in_sessions(one, one)
    sessions = [session(id=name, busy=busy) for name, busy in (("counted", 0.9), ("1", 0.0), ("2", 0.0))]
    assert [doubt.kind for doubt in doubts(study(), [timed], sessions=sessions) if doubt.kind == "busy"] == []
    sessions[2] = session(id="2", busy=0.9)
    (found,) = [doubt for doubt in doubts(study(), [timed], sessions=sessions) if doubt.kind == "busy"]
    assert "1 of 2 sessions" in found.sentence
