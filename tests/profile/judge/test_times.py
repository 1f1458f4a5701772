"""Times and speed-ups that are derived from rounds: worked by hand."""

from math import inf, log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from tests.profile.examples import in_processes, measurement, pair, session, store, study, with_pairs
from trio_profile.judge.times import (
    SPEEDUPS,
    ratios_by_session,
    round_over_process,
    speedup_centres,
    spent_seconds,
    summarise_times,
    why_stopped,
    widest,
)
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Measurement, Pair
from trio_profile.stats.two_way import centre_of


def timed(prefills: list[list[Pair]], generations: list[list[Pair]], retention: float = 0.5) -> Measurement:
    """A cell with these pairs by session."""
    cell = with_pairs(measurement(retention=retention), *prefills)
    timings = [
        timing.model_copy(update={"generations": tuple(pairs)})
        for timing, pairs in zip(cell.timings, generations, strict=True)
    ]
    return cell.model_copy(update={"timings": tuple(timings)})


def contents_of(*cells: Measurement, **fields) -> Contents:
    """A store of these cells, in processes that load for two seconds."""
    return store(study(**fields), *cells, load_seconds=2.0)


def test_ratios_stand_by_session_and_only_whole():
    cell = timed(
        [[pair(100, 50), pair(90, 30)], [pair(80, 40)]],
        [[pair(100, 50, 30)], [pair(90, 45, 60), pair(80, 40, 20)]],
    )
    assert ratios_by_session(cell, "prefill_ms") == [[2, 3], [2]]
    assert ratios_by_session(cell, "rest_ms") == [[1], [1, 1]]
    assert ratios_by_session(cell, "cpu_ms") == []
    some = with_pairs(measurement(), [pair(), pair(cpu_ms=3.0)])
    assert ratios_by_session(some, "cpu_ms") == []  # it is not known of every pair


def test_a_total_is_put_together_from_the_prefill_and_the_rest():
    """Half of a dense generation is prefill, which becomes 2 times as fast, and the rest 1.25 times as fast."""
    prefills = [[pair(100, 50)] * 6] * 4
    whole = pair(100, 48, 100)
    whole = whole.model_copy(update={"pruned": whole.pruned.model_copy(update={"total_ms": 48.0 + 80.0})})
    cell = timed(prefills, [[whole] * 2] * 4)
    centre = speedup_centres([cell], "total_ms", 0.0)[cell.cell.id]
    assert centre.value == pytest.approx(1 / (0.5 / 2 + 0.5 / 1.25)) and centre.half_width() == pytest.approx(0)
    assert (centre.samples, centre.processes) == (8, 4)
    assert speedup_centres([with_pairs(cell, *prefills)], "total_ms", 0.0) == {}  # there is no generation


def test_the_errors_of_prefill_and_rest_are_added():
    draw = np.random.default_rng(0)
    prefills = [[pair(100 * draw.lognormal(0, 0.02), 50) for _ in range(6)] for _ in range(5)]
    generations = [[pair(100, 50, 100 * draw.lognormal(0, 0.01)) for _ in range(2)] for _ in range(5)]
    for group in generations:
        for number, one in enumerate(group):
            rest = one.dense.total_ms - 100 * draw.lognormal(0, 0.01)  # type: ignore[operator]
            group[number] = one.model_copy(
                update={"pruned": one.pruned.model_copy(update={"total_ms": 50 + 80 + rest - 100})}
            )
    cell = timed(prefills, generations)
    found = speedup_centres([cell], "total_ms", 0.0)[cell.cell.id]
    prefill, rest = (centre_of(ratios_by_session(cell, time)) for time in ("prefill_ms", "rest_ms"))
    share = float(np.median([one.dense.prefill_ms / one.dense.total_ms for group in generations for one in group]))  # type: ignore[operator]
    parts = share / prefill.value, (1 - share) / rest.value
    assert found.value == pytest.approx(1 / sum(parts))
    assert found.error == pytest.approx((parts[0] * prefill.error + parts[1] * rest.error) / sum(parts))
    assert found.freedom == 4


def test_cells_of_the_same_processes_are_pooled():
    cells = [in_processes(measurement(retention=r, seed=1)) for r in (0.1, 0.2, 0.3, 0.4, 0.5)]
    late = in_processes(measurement(retention=0.6), 3)
    found = speedup_centres([*cells, late], "prefill_ms", 0.0)
    tables = [[log(np.median(group)) for group in ratios_by_session(cell, "prefill_ms")] for cell in cells]
    error = sqrt(np.var(tables, axis=1, ddof=1).mean() / 4)
    assert [found[cell.cell.id].error for cell in cells] == pytest.approx([error] * 5)
    assert found[late.cell.id] == centre_of(ratios_by_session(late, "prefill_ms"))


def test_timing_ends_when_every_interval_is_narrow():
    narrow, wide = in_processes(measurement(retention=0.5)), in_processes(measurement(noise=0.3, retention=0.2), 3)
    measured = contents_of(narrow).measurements
    reach = widest(contents_of(narrow))
    assert 0 < reach < 0.05 and widest(Contents(study())) == inf
    assert why_stopped(measured, study(precision=1.01 * reach)) == "converged"
    assert why_stopped(measured, study(precision=0.99 * reach)) == "budget"
    both = contents_of(narrow, wide)
    assert widest(both) > reach and why_stopped(both.measurements, study(precision=1.01 * reach)) == "budget"
    # On a CPU the state of the machine is part of the interval.
    assert widest(contents_of(narrow, device="cpu")) > 1.96 * 0.0125


def test_spent_seconds_are_those_of_rounds_and_of_the_processes_that_timed():
    cell = measurement(pairs=4)  # and two generations
    found = contents_of(cell)
    found.add(session(id="counted", load_seconds=50.0))
    assert spent_seconds(found) == pytest.approx(2 + 6 * 1.0)
    assert spent_seconds(Contents(study())) == 0


def test_the_variance_of_a_round_over_that_of_a_process_is_found():
    draw = np.random.default_rng(1)

    def cell(retention: float, within: float, between: float, processes: int = 40) -> Measurement:
        centres = np.exp(between * draw.standard_normal(processes))
        return with_pairs(
            measurement(retention=retention),
            *([pair(100, 50 * c * draw.lognormal(0, within)) for _ in range(20)] for c in centres),
        )

    def found(*cells: Measurement) -> float | None:
        return round_over_process(SimpleNamespace(measurements=cells))  # pyright: ignore[reportArgumentType]

    assert found(*(cell(r, 0.06, 0.02) for r in (0.2, 0.4, 0.6))) == pytest.approx(9, rel=0.35)
    assert found(cell(0.2, 0.05, 0.0)) == 60  # at most
    assert found(cell(0.2, 0.01, 0.1)) == 2  # at least
    assert found(cell(0.2, 0.06, 0.02, processes=3)) is None


def test_each_time_of_both_sides_has_a_median():
    cell = timed(
        [[pair(100, 50, selection_ms=3.0), pair(110, 50, selection_ms=5.0), pair(90, 50, selection_ms=4.0)]] * 2,
        [[pair(100, 40, 35)]] * 2,
    )
    asked = study(new_tokens=8)
    speedups = {time: speedup_centres([cell], time, 0.0) for time in SPEEDUPS}
    found = summarise_times(cell, speedups, "budget", asked)
    expected = {
        "prefill_ms": 50,
        "dense_prefill_ms": 100,
        "selection_ms": 4,
        "prefill_speedup": 2,
        "total_ms": 75,
        "dense_total_ms": 135,
        "ttft_ms": 40,
        "dense_ttft_ms": 100,
        "tpot_ms": 5,
        "dense_tpot_ms": 5,
        "total_speedup": 1 / (100 / 135 / 2 + 35 / 135),
    }
    assert {name: one.value for name, one in found.items()} == pytest.approx(expected)
    assert (found["prefill_ms"].samples, found["prefill_ms"].sessions, found["ttft_ms"].samples) == (6, 2, 2)
    one_token = summarise_times(cell, speedups, "budget", study(new_tokens=1))
    assert "tpot_ms" not in one_token
