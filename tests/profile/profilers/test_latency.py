"""Times on a fake clock."""

import pytest
import torch

from tests.profile.faking import FakeClock, FakeGpu
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_profile.profilers import disturbance, latency
from trio_profile.records.schema import Pair


def measured(workload, method, **how) -> latency.Latency:
    """One method alone."""
    [(_, found)] = latency.measure(workload, [method], **{"precision": 0.01, "seconds": [60], "seed": 0, **how})
    return found


def test_pruning_happens_inside_what_is_timed(tiny_workload, monkeypatch):
    events: list[str] = []
    clock = FakeClock()
    monkeypatch.setattr(clock, "mark", lambda: events.append("mark") or float(len(events)))
    chosen = Grid.select
    monkeypatch.setattr(Grid, "select", lambda self, view: events.append("select") or chosen(self, view))
    pair = latency.measure_round(tiny_workload, {0: Grid(retention=0.4)}, clock, [None, 0])[0]
    # Dense: nine marks. Pruned: as many, and two around each selection.
    chosen_at = [number for number, event in enumerate(events) if event == "select"]
    assert len(chosen_at) > 0
    assert len(events) == 9 + 9 + 3 * len(chosen_at)
    assert all(15 < number < len(events) - 2 for number in chosen_at)
    assert pair.dense_first


def test_modules_that_a_selection_calls_are_timed_as_the_selection(tiny_workload, monkeypatch):
    """A method that projects features itself does not add to the projector."""
    chosen, projector = Grid.select, tiny_workload.model.get_submodule("model.multi_modal_projector")
    width = tiny_workload.model.config.vision_config.hidden_size

    def select(self, view):
        projector(torch.zeros(1, 1, width))
        return chosen(self, view)

    monkeypatch.setattr(Grid, "select", select)
    pair = latency.measure_round(tiny_workload, {0: Grid(retention=0.4)}, FakeClock(), [None, 0])[0]
    assert pair.projector_ms == pair.dense_projector_ms == 10
    assert pair.selection_ms is not None and pair.selection_ms % 10 == 0 and pair.selection_ms > 0


def test_methods_at_one_retention_share_a_dense_run(tiny_workload):
    found = dict(
        latency.measure(
            tiny_workload,
            [Grid(retention=0.4), Random(retention=0.4)],
            precision=0.5,
            seconds=[60, 60],
            seed=3,
            clock=FakeClock([1.0 + i * 7919 % 13 for i in range(4000)]),
        )
    )
    one, other = found[0].pairs, found[1].pairs
    assert [pair.dense_prefill_ms for pair in one] == [pair.dense_prefill_ms for pair in other][: len(one)]
    assert [pair.prefill_ms for pair in one] != [pair.prefill_ms for pair in other]
    assert {(a.dense_first, b.dense_first) for a, b in zip(one, other, strict=False)} > {(True, True)}


def test_a_method_with_enough_pairs_stops_and_the_others_go_on(tiny_workload, monkeypatch):
    """The first asked after six ratios has enough; the other has at nine."""
    asked: list[int] = []

    def by_count(ratios, _spent_s, **_):
        asked.append(len(ratios))
        return "converged" if (len(ratios) == 6 and asked.count(6) == 1) or len(ratios) == 9 else None

    monkeypatch.setattr(latency, "decide", by_count)
    methods = [Grid(retention=0.4), Random(retention=0.4)]
    found = list(latency.measure(tiny_workload, methods, precision=0.5, seconds=[60, 60], seed=0, clock=FakeClock()))
    assert [(which, len(latencies.pairs)) for which, latencies in found] == [(0, 6), (1, 9)]


def test_a_steady_clock_converges_at_the_first_look(tiny_workload):
    found = measured(tiny_workload, Grid(retention=0.4), clock=FakeClock())
    assert found.stopped == "converged"
    assert len(found.pairs) == 24
    # Five marks further than its beginning: tower, projector, end; and two for the selection of each of three stages.
    assert {pair.dense_prefill_ms for pair in found.pairs} == {50.0}
    assert {pair.prefill_ms for pair in found.pairs} == {110.0}
    assert {pair.selection_ms for pair in found.pairs} == {30.0}
    assert found.warmups == 2
    assert found.discarded == 0


def test_pairs_of_a_slowed_gpu_are_discarded_and_counted(tiny_workload):
    """Two readings a pair: of the first four pairs, the second and the third are slow at one end; then rests grow."""
    slow = [2000, 2000, 1400, 2000, 2000, 1499, 1000, 1000, 1000, 1000, 2000]
    rests: list[float] = []
    found = measured(
        tiny_workload,
        Grid(retention=0.4),
        clock=FakeClock(),
        gpu=FakeGpu(slow, strangers=(7, 8)),
        sleep=rests.append,
    )
    assert found.slowed_by == ("temperature",)
    assert found.strangers == 2
    assert found.discarded == 4
    assert rests == pytest.approx([0.075, 0.1125])
    assert len(found.pairs) == 24
    assert all(pair.clock_mhz == 2000 for pair in found.pairs)


def test_a_clock_that_is_low_without_a_reason_was_idle_between_rounds(tiny_workload):
    idle = FakeGpu([345])
    idle.why = ()
    found = measured(tiny_workload, Grid(retention=0.4), clock=FakeClock(), gpu=idle, sleep=pytest.fail)
    assert (found.discarded, len(found.pairs)) == (0, 24)


def test_warm_up_goes_on_until_two_rounds_agree(tiny_workload, monkeypatch):
    rounds = iter([90.0, 50.0, 10.0, 10.5])

    def one_round(*_):
        ms = next(rounds, 10.0)
        return {0: Pair(dense_first=True, dense_prefill_ms=10, dense_total_ms=20, prefill_ms=ms, total_ms=2 * ms)}

    monkeypatch.setattr(latency, "measure_round", one_round)
    assert measured(tiny_workload, Grid(retention=0.4), clock=FakeClock()).warmups == 4


@pytest.mark.parametrize(("settled_ms", "warmups"), [(52.0, 1), (80.0, 2), (None, 2)])
def test_one_round_warms_up_if_the_dense_model_is_as_fast_as_before(tiny_workload, settled_ms, warmups):
    """The dense prefill takes 50 ms by the clock of this test."""
    found = measured(tiny_workload, Grid(retention=0.4), settled_ms=settled_ms, clock=FakeClock())
    assert found.warmups == warmups


def test_noisy_times_stop_at_the_budget(tiny_workload):
    steps = [1000.0 * (1 + i * 7919 % 13) for i in range(4000)]
    found = measured(tiny_workload, Grid(retention=0.4), precision=0.001, seconds=[1], clock=FakeClock(steps))
    assert found.stopped == "budget"
    assert len(found.pairs) == 6


def test_the_order_within_pairs_is_balanced_and_seeded(tiny_workload):
    def orders(seed: int) -> list[bool]:
        steps = [1.0 + i * 7919 % 13 for i in range(4000)]
        found = measured(
            tiny_workload, Grid(retention=0.4), precision=1e-9, seconds=[0.7], seed=seed, clock=FakeClock(steps)
        )
        return [pair.dense_first for pair in found.pairs]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    both = orders(1)
    assert all(first != second for first, second in zip(both[::2], both[1::2], strict=False))


def test_each_pair_has_the_disturbance_of_its_own_two_runs(tiny_workload, monkeypatch):
    """Readings come before the round and after each run: pairs at 0, 1 … with 1, 2, 4 and 8 faults between them."""
    faults = iter([0, 1, 3, 7, 15])

    def read() -> disturbance.Reading:
        return disturbance.Reading(0.0, None, None, None, None, next(faults), None)

    monkeypatch.setattr(disturbance, "read", read)
    methods = {0: Grid(retention=0.4), 1: Random(retention=0.4)}
    pairs = latency.measure_round(tiny_workload, methods, FakeClock(), [1, None, 0])
    assert [pairs[which].disturbance.faults for which in (0, 1)] == [2 + 4, 2 + 1]
    assert pairs[0].dense_first and not pairs[1].dense_first


def test_distinct_pictures_are_timed_in_turn_with_the_repeated_one(tiny_workload, monkeypatch):
    """A tower that keeps what it made of a picture is faster on the one it has seen."""
    kept: list[torch.Tensor] = []
    clock = FakeClock()

    def generate(workload) -> None:
        pixels = workload.inputs["pixel_values"]
        clock.now += 1.0 if any(torch.equal(pixels, old) for old in kept) else 31.0
        kept.append(pixels)

    def run(workload, _clock) -> latency.Times:
        start = clock.now
        generate(workload)
        return latency.Times(clock.now - start, 0, 0)

    monkeypatch.setattr(latency, "run", run)
    ratios = latency.distinct_ratios(tiny_workload, seed=0, clock=clock)
    assert ratios == (31.0,) * 6
    assert len(kept) == 13
