"""Rounds on a fake clock."""

import random

import pytest
import torch

from tests.profile.faking import FakeClock, FakeGpu
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_profile.profilers import rounds
from trio_profile.records.schema import Round
from trio_profile.records.timing import Phase

METHODS = {"a": Grid(retention=0.4), "b": Random(retention=0.4)}


def measured(workload, methods=None, phase: Phase = "prefill", seed: int = 0, gpu: FakeGpu | None = None) -> Round:
    """One round on a clock of which each mark takes 10 ms."""
    draw = random.Random(seed)
    return rounds.measure(workload, methods or METHODS, phase, draw, FakeClock(), gpu)  # pyright: ignore


def test_a_round_has_every_cell_once_and_dense_runs_in_an_order_that_the_seed_draws(tiny_workload):
    orders = [[run.cell for run in measured(tiny_workload, seed=seed).runs] for seed in (1, 1, 2, 3, 4)]
    assert all(sorted(order) == ["", "a", "b"] for order in orders)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1
    assert [rounds.dense_runs(cells) for cells in (0, 1, 2, 10)] == [1, 1, 1, 3]


def test_each_time_is_between_its_own_marks(tiny_workload):
    """Marks of the tower, the projector and the end follow the beginning, and two for each of three selections."""
    found = measured(tiny_workload)
    dense, pruned = (next(run for run in found.runs if run.cell == cell) for cell in ("", "a"))
    assert (dense.prefill_ms, pruned.prefill_ms, pruned.selection_ms, dense.selection_ms) == (50, 110, 30, None)
    assert dense.total_ms is None
    generated = measured(tiny_workload, phase="generation")
    assert all(run.total_ms > run.ttft_ms >= run.prefill_ms for run in generated.runs)  # pyright: ignore


def test_modules_that_a_selection_calls_are_timed_as_the_selection(tiny_workload, monkeypatch):
    """A method that projects features itself does not add to the projector."""
    selected, projector = Grid.select, tiny_workload.model.get_submodule("model.multi_modal_projector")
    width = tiny_workload.model.config.vision_config.hidden_size

    def select(self, view):
        projector(torch.zeros(1, 1, width))
        return selected(self, view)

    monkeypatch.setattr(Grid, "select", select)
    found = measured(tiny_workload, {"a": METHODS["a"]})
    dense, pruned = (next(run for run in found.runs if run.cell == cell) for cell in ("", "a"))
    assert pruned.projector_ms == dense.projector_ms == 10
    assert pruned.selection_ms is not None and pruned.selection_ms > 0


def test_a_round_on_a_slow_gpu_is_discarded_if_the_gpu_says_why(tiny_workload, monkeypatch):
    """A clock that is low without a reason had too little to do. A GPU that names no full clock discards nothing."""
    for full, clocks, why, is_discarded in (
        (2000, [2000, 1499], ("temperature",), True),
        (2000, [1499, 2000], ("temperature",), True),
        (2000, [2000, 1500], ("temperature",), False),
        (2000, [345, 345], (), False),
        (None, [1000, 1000], ("temperature",), False),
    ):
        monkeypatch.setattr(FakeGpu, "full_clock_mhz", full)
        gpu = FakeGpu(list(clocks), strangers=(7, 8))
        gpu.why = why
        found = measured(tiny_workload, gpu=gpu)
        assert (found.discarded, found.clock_mhz, found.slowed_by) == (is_discarded, min(clocks), why)
        assert found.strangers == 2


def test_each_run_has_its_own_disturbance(tiny_workload, monkeypatch):
    """The delays of the readings are squares, so the differences are odd numbers."""
    number = iter(range(100))
    monkeypatch.setattr(rounds, "delays_ns", lambda: {"1": 10**6 * next(number) ** 2})
    assert [run.disturbance.delay_ms for run in measured(tiny_workload).runs] == [1, 5, 9]  # pyright: ignore


def test_the_cell_that_fails_is_named_and_an_error_of_the_dense_model_is_raised(tiny_workload, monkeypatch):
    monkeypatch.setattr(Random, "select", lambda *_: 1 / 0)
    with pytest.raises(rounds.CellFailed) as caught:
        measured(tiny_workload)
    assert caught.value.cell == "b" and isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.setattr(rounds, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measured(tiny_workload, {})


def test_the_delay_is_that_of_the_thread_that_waited_longest():
    before = {"1": 0, "2": 1_000_000, "4": 9_000_000}
    assert rounds.longest_delay_ms(before, {"1": 2_000_000, "2": 2_000_000, "3": 3_000_000}) == 3.0


@pytest.mark.parametrize(
    ("content", "delays"), [(b"1000 2000 3\n", {"1": 2000}), (b"", {}), (b"a b c", {}), (None, {})]
)
def test_the_delays_are_read_where_linux_shows_them(content, delays, tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "THREADS", str(tmp_path))
    (tmp_path / "1").mkdir()
    if content is not None:
        (tmp_path / "1" / "schedstat").write_bytes(content)
    assert rounds.delays_ns() == delays
    assert (rounds.longest_delay_ms(delays, delays) is None) == (delays == {})


def test_the_clock_is_read_behind_work(tiny_workload, monkeypatch):
    """Before the first run the GPU may be idle, and its clock is low."""
    gpu, events, run = FakeGpu([2000]), list[str](), rounds._run
    read = gpu.clock_mhz
    monkeypatch.setattr(gpu, "clock_mhz", lambda: events.append("clock") or read())
    monkeypatch.setattr(rounds, "_run", lambda *arguments: events.append("run") or run(*arguments))
    measured(tiny_workload, gpu=gpu)
    assert events == ["run", "clock", "run", "run", "clock"]
