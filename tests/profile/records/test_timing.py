"""Rounds, and the pairs and times that follow from them: worked by hand."""

import pytest

from trio_profile.records.schema import Round, Timed
from trio_profile.records.timing import pairs_of, timings_of


def a_round(*runs: Timed, **fields) -> Round:
    return Round(**{"phase": "prefill", "session": "s", **fields, "runs": runs})


def prefill(cell: str, prefill_ms: float, **times) -> Timed:
    return Timed(cell=cell, prefill_ms=prefill_ms, **times)


def whole(cell: str, prefill_ms: float, total_ms: float) -> Timed:
    return Timed(cell=cell, prefill_ms=prefill_ms, total_ms=total_ms, ttft_ms=prefill_ms)


def test_a_pair_has_the_dense_time_of_its_moment_and_the_mean_parts_of_its_round():
    one = a_round(
        prefill("", 12.0, host_ms=0.0, vision_ms=1.0),
        prefill("a", 5.0, selection_ms=1.0),
        prefill("", 12.0, host_ms=3.0),
        prefill("b", 4.0),
        clock_mhz=1900,
    )
    assert one.cells == ("a", "b")
    [pairs] = pairs_of([[one]])
    (pair,) = pairs["a"]
    assert pair.dense.prefill_ms == pytest.approx(12) and pair.pruned.prefill_ms == 5
    assert pair.dense.host_ms == 1.5  # a time of 0 has no geometric mean
    assert pair.dense.vision_ms is None  # it is missing in one run
    assert (pair.clock_mhz, pair.pruned.selection_ms) == (1900, 1.0)
    assert pair.ratio("prefill_ms") == pytest.approx(2.4)
    assert pair.ratio("selection_ms") is None and pair.ratio("vision_ms") is None
    assert pairs["b"][0].ratio("prefill_ms") == pytest.approx(3)
    assert pairs_of([]) == [] and pairs_of([[], []]) == [{}, {}]


def test_extreme_times_have_pairs_too():
    """The drift moves the dense times beyond what a single run may take."""
    rounds = [a_round(whole("", 1e12, 1e12), whole("a", 1e-9, 1e-9), whole("", 1.0, 1e12)) for _ in range(3)]
    assert all(pair.ratio("total_ms") for pair in pairs_of([rounds])[0]["a"])


def test_the_times_of_a_cell_stand_by_session_and_phase():
    rounds = [
        a_round(prefill("", 99), prefill("a", 99), phase="warm-up"),
        a_round(prefill("", 12), prefill("a", 6), prefill("b", 4)),
        a_round(whole("", 10, 30), whole("a", 5, 20), whole("b", 4, 10), phase="generation"),
        a_round(prefill("", 90), prefill("a", 80), discarded=True, slowed_by=("power",), strangers=1),
        a_round(prefill("", 10), prefill("a", 5), slowed_by=("heat",), strangers=2, session="t"),
        a_round(prefill("a", 6), prefill("", 12)),
    ]
    found = timings_of(rounds)
    assert list(found) == ["a", "b"]
    first, second = found["a"]
    assert [pair.ratio("prefill_ms") for pair in first.pairs] == pytest.approx([2, 2])
    assert [pair.ratio("total_ms") for pair in first.generations] == pytest.approx([1.5])
    assert (first.session, second.session) == ("s", "t")
    assert [pair.ratio("prefill_ms") for pair in second.pairs] == pytest.approx([2]) and second.generations == ()
    (only,) = found["b"]
    assert [pair.ratio("prefill_ms") for pair in only.pairs] == pytest.approx([3])


def test_without_rounds_of_prefills_those_of_the_generations_count():
    (timing,) = timings_of([a_round(whole("", 10, 30), whole("a", 5, 20), phase="generation")])["a"]
    assert timing.pairs == timing.generations and timing.pairs[0].ratio("prefill_ms") == pytest.approx(2)
    assert timings_of([a_round(prefill("", 9), prefill("a", 9), phase="warm-up")]) == {}
    assert timings_of([]) == {}
