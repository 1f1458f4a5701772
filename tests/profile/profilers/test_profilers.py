"""Latency on a fake clock; counts, cache and memory on real, tiny models against figures worked out elsewhere."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache

from trio_core import Schedule, Trio, prune
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_profile.errors import StudyError
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.profilers import clock as clocks
from trio_profile.profilers import flops_counted, gpu, kv_cache, latency, launches, memory, power
from trio_profile.records.schema import Pair


class FakeClock:
    """Each mark is 10 ms after the last, or as much as a script says."""

    def __init__(self, steps=()):
        self.now = 0.0
        self.steps = list(steps)

    def mark(self) -> float:
        self.now += self.steps.pop(0) if self.steps else 10.0
        return self.now

    def elapsed_ms(self, start: float, end: float) -> float:
        return end - start

    def prepare(self) -> None:
        pass


class Turns:
    """An order that is given, instead of a random one."""

    def __init__(self, turns: list[int | None]):
        self.turns = turns

    def shuffle(self, turns: list[int | None]) -> None:
        turns[:] = self.turns


def measured(workload, method, **how) -> latency.Latency:
    """One method alone."""
    [(_, found)] = latency.measure(workload, [method], **{"precision": 0.01, "seconds": 60, "seed": 0, **how})
    return found


# --- latency ---------------------------------------------------------------------------------------------


def test_one_run_marks_the_first_forward_and_the_whole(tiny_workload):
    # Marks in order: generate begins, the clock is prepared and has been, which counts for nothing, the first module
    # begins, the tower, the projector, the first forward ends, generate ends.
    times = latency.run(tiny_workload, FakeClock([0, 1, 50, 1, 3, 1, 2, 5, 20]))
    assert (times.prefill_ms, times.ttft_ms, times.total_ms) == (12, 13, 33)
    assert times.parts == {"vision": 3, "projector": 2}
    assert times.host_ms is not None and times.host_ms > 0  # beside a clock that is not the host's own
    assert latency.run(tiny_workload, clocks.HostClock()).host_ms is None


def test_a_prefill_begins_with_the_vision_tower(tiny_workload):
    """`generate` may encode the pictures before it calls the model."""
    events: list[str] = []
    clock = FakeClock()
    clock.mark = lambda: events.append("mark") or 0.0  # type: ignore[method-assign]
    tower = tiny_workload.model.get_submodule("model.vision_tower")
    handle = tower.register_forward_hook(lambda *_: events.append("tower"))
    try:
        latency.run(tiny_workload, clock)
    finally:
        handle.remove()
    assert events.index("tower") == 4  # generate, preparing, the first module and the tower itself begin before it
    assert events.count("mark") == 9


def test_the_timing_hooks_leave_nothing(tiny_workload):
    latency.run(tiny_workload, FakeClock())
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not tiny_workload.model._forward_hooks
    assert not tiny_workload.model._forward_pre_hooks
    for _, module in beside_the_decoder(tiny_workload.adapter):
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_pruning_happens_inside_what_is_timed(tiny_workload, monkeypatch):
    events: list[str] = []
    clock = FakeClock()
    monkeypatch.setattr(clock, "mark", lambda: events.append("mark") or 0.0)
    chosen = Grid.select
    monkeypatch.setattr(Grid, "select", lambda self, view: events.append("select") or chosen(self, view))
    pair = latency._round(tiny_workload, {0: Grid(retention=0.4)}, clock, Turns([None, 0]))[0]
    # Dense: nine marks. Pruned: as many, and around each choice two.
    chosen_at = [number for number, event in enumerate(events) if event == "select"]
    assert len(chosen_at) > 0
    assert len(events) == 9 + 9 + 3 * len(chosen_at)
    assert all(15 < number < len(events) - 2 for number in chosen_at)
    assert pair.dense_first


def test_what_a_choice_calls_is_the_choice_s(tiny_workload, monkeypatch):
    """A method that projects features itself does not add to the projector."""
    chosen, projector = Grid.select, tiny_workload.model.get_submodule("model.multi_modal_projector")
    width = tiny_workload.model.config.vision_config.hidden_size

    def select(self, view):
        projector(torch.zeros(1, 1, width))
        return chosen(self, view)

    monkeypatch.setattr(Grid, "select", select)
    pair = latency._round(tiny_workload, {0: Grid(retention=0.4)}, FakeClock(), Turns([None, 0]))[0]
    assert pair.projector_ms == pair.dense_projector_ms == 10
    assert pair.selection_ms is not None and pair.selection_ms % 10 == 0 and pair.selection_ms > 0


def test_methods_at_one_retention_share_a_dense_run(tiny_workload):
    found = dict(
        latency.measure(
            tiny_workload,
            [Grid(retention=0.4), Random(retention=0.4)],
            precision=0.5,
            seconds=60,
            seed=3,
            clock=FakeClock([1.0 + i * 7919 % 13 for i in range(4000)]),
        )
    )
    one, other = found[0].pairs, found[1].pairs
    assert [pair.dense_prefill_ms for pair in one] == [pair.dense_prefill_ms for pair in other][: len(one)]
    assert [pair.prefill_ms for pair in one] != [pair.prefill_ms for pair in other]
    assert {(a.dense_first, b.dense_first) for a, b in zip(one, other, strict=False)} > {(True, True)}


def test_a_method_that_has_enough_leaves_the_others_to_go_on(tiny_workload, monkeypatch):
    """The first asked after six ratios has enough; the other has at nine."""
    asked: list[int] = []

    def by_count(ratios, _spent_s, **_):
        asked.append(len(ratios))
        return "converged" if (len(ratios) == 6 and asked.count(6) == 1) or len(ratios) == 9 else None

    monkeypatch.setattr(latency, "decide", by_count)
    methods = [Grid(retention=0.4), Random(retention=0.4)]
    found = list(latency.measure(tiny_workload, methods, precision=0.5, seconds=60, seed=0, clock=FakeClock()))
    assert [(which, len(latencies.pairs)) for which, latencies in found] == [(0, 6), (1, 9)]


def test_a_steady_clock_converges_at_the_least_count(tiny_workload):
    found = measured(tiny_workload, Grid(retention=0.4), clock=FakeClock())
    assert found.stopped == "converged"
    assert len(found.pairs) == 6
    # Five marks further than its beginning: tower, projector, end; and two for the choice of each of three stages.
    assert {pair.dense_prefill_ms for pair in found.pairs} == {50.0}
    assert {pair.prefill_ms for pair in found.pairs} == {110.0}
    assert {pair.selection_ms for pair in found.pairs} == {30.0}
    assert found.warmups == 2
    assert found.discarded == 0


class FakeGpu:
    """A GPU whose clock, in MHz, and energy counter, in joules, are scripted; the last entries stay."""

    def __init__(self, clocks: list[int], watts: float = 100.0, strangers: tuple[int, ...] = ()):
        self.clocks, self.watts, self.seconds, self.strangers = clocks, watts, 0.0, strangers
        self.read: list[int] = []
        self.why: tuple[str, ...] = ("temperature",)

    def clock_mhz(self) -> int:
        self.read.append(self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0])
        return self.read[-1]

    def full_clock_mhz(self) -> int:
        return 2000

    def energy_j(self) -> float:
        return self.watts * self.seconds

    def slowed_by(self) -> tuple[str, ...]:
        return self.why if min(self.read[-2:]) < 2000 else ()

    def others(self) -> tuple[int, ...]:
        return self.strangers


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
    assert len(found.pairs) == 6
    assert all(pair.clock_mhz == 2000 for pair in found.pairs)


def test_a_clock_that_is_low_without_a_reason_was_idle_between_rounds(tiny_workload):
    idle = FakeGpu([345])
    idle.why = ()
    found = measured(tiny_workload, Grid(retention=0.4), clock=FakeClock(), gpu=idle, sleep=pytest.fail)
    assert (found.discarded, len(found.pairs)) == (0, 6)


def test_nvml_that_does_not_tell_is_asked_for_nothing_else():
    class Refuses:
        NVML_CLOCK_SM = 1

        class NVMLError(Exception):
            pass

        def __getattr__(self, name):
            def refuse(*_):
                raise self.NVMLError("not supported")

            return refuse if name.startswith("nvmlDevice") else 1

    found = object.__new__(gpu.NvmlGpu)
    found._nvml, found._handle, found._me, found._full = Refuses(), None, 7, 2000
    assert (found.clock_mhz(), found.slowed_by(), found.others()) == (None, (), ())


@pytest.mark.parametrize(("pids", "others"), [([7], ()), ([7, 9], (9,)), ([41], ()), ([41, 43], (43,)), ([], ())])
def test_a_container_may_number_this_process_otherwise(pids, others):
    running = [SimpleNamespace(pid=pid) for pid in pids]
    found = object.__new__(gpu.NvmlGpu)
    found._me, found._handle = 7, None
    found._nvml = SimpleNamespace(nvmlDeviceGetComputeRunningProcesses=lambda _: running, NVMLError=KeyError)
    assert found.others() == others


def test_warm_up_goes_on_until_two_rounds_agree(tiny_workload, monkeypatch):
    rounds = iter([90.0, 50.0, 10.0, 10.5])

    def one_round(*_):
        ms = next(rounds, 10.0)
        return {0: Pair(dense_first=True, dense_prefill_ms=10, dense_total_ms=20, prefill_ms=ms, total_ms=2 * ms)}

    monkeypatch.setattr(latency, "_round", one_round)
    assert measured(tiny_workload, Grid(retention=0.4), clock=FakeClock()).warmups == 4


def test_energy_is_above_idle_and_by_the_work_repeated(tiny_workload, monkeypatch):
    """A GPU of 30 W idle and 430 W at work; a prefill takes 0.1 s, a generation of three tokens 0.5 s."""
    gpu = FakeGpu([2000])
    joules = 0.0

    def work(watts: float, seconds: float) -> None:
        nonlocal joules
        joules += watts * seconds
        gpu.seconds += seconds

    monkeypatch.setattr(gpu, "energy_j", lambda: joules)
    monkeypatch.setattr(type(tiny_workload), "prefill", lambda _: work(430, 0.1))
    monkeypatch.setattr(type(tiny_workload), "generate", lambda _: work(430, 0.5))
    found = power.measure(
        tiny_workload, None, gpu=gpu, now=lambda: gpu.seconds, sleep=lambda seconds: work(30, seconds)
    )
    assert found.idle_w == pytest.approx(30)
    assert found.prefill_j == pytest.approx(40)
    assert found.token_j == pytest.approx((200 - 40) / 2)
    assert found.reason is None


def test_a_counter_that_stands_and_a_cpu_give_no_energy_but_the_reason(tiny_workload):
    still = FakeGpu([2000], watts=0)
    ticks = iter(range(10**6))
    found = power.measure(tiny_workload, None, gpu=still, now=lambda: next(ticks) / 4, sleep=lambda _: None)
    assert found.prefill_j is None and "did not move" in str(found.reason)
    assert "no NVML" in str(power.measure(tiny_workload, None).reason)


def test_noise_runs_into_the_budget_and_says_so(tiny_workload):
    steps = [1000.0 * (1 + i * 7919 % 13) for i in range(4000)]
    found = measured(tiny_workload, Grid(retention=0.4), precision=0.001, seconds=1, clock=FakeClock(steps))
    assert found.stopped == "budget"
    assert len(found.pairs) == 6


def test_the_order_within_pairs_is_random_and_seeded(tiny_workload):
    def orders(seed: int) -> list[bool]:
        steps = [1.0 + i * 7919 % 13 for i in range(4000)]
        found = measured(
            tiny_workload, Grid(retention=0.4), precision=1e-9, seconds=0.7, seed=seed, clock=FakeClock(steps)
        )
        return [pair.dense_first for pair in found.pairs]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert set(orders(1)) == {True, False}


def test_host_clock_never_goes_back():
    clock = clocks.HostClock()
    marks = [clock.mark() for _ in range(100)]
    assert all(clock.elapsed_ms(a, b) >= 0 for a, b in pairwise(marks))


def test_a_device_without_a_clock():
    assert isinstance(clocks.clock_for(torch.device("cpu")), clocks.HostClock)
    assert isinstance(clocks.clock_for(torch.device("cuda")), clocks.CudaClock)
    with pytest.raises(StudyError, match="preroll_ms 5 on device cpu"):
        clocks.clock_for(torch.device("cpu"), preroll_ms=5)
    with pytest.raises(StudyError, match="cold_l2 on device cpu"):
        clocks.clock_for(torch.device("cpu"), cold_l2=True)
    with pytest.raises(StudyError, match="no clock"):
        clocks.clock_for(torch.device("meta"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_clock_agrees_with_the_host():
    import time

    clock = clocks.CudaClock(torch.device("cuda"))
    torch.cuda.synchronize()
    start, began = clock.mark(), time.perf_counter()
    torch.cuda._sleep(200_000_000)
    end = clock.mark()
    torch.cuda.synchronize()
    host_ms = 1e3 * (time.perf_counter() - began)
    assert clock.elapsed_ms(start, end) == pytest.approx(host_ms, rel=0.05)


# --- counted work ----------------------------------------------------------------------------------------


def decoder_macs(tokens: int) -> int:
    """One layer of the tiny checkpoint: width 32, FFN 80 with a gate, dense attention."""
    return 4 * tokens * 32 * 32 + 2 * tokens * tokens * 32 + 3 * tokens * 32 * 80


def outside_decoder_macs() -> int:
    """Tower (2 layers, 37 tokens, width 32, FFN 64), patches, projector, and the head's one row."""
    tower = 2 * (4 * 37 * 32 * 32 + 2 * 37 * 37 * 32 + 2 * 37 * 32 * 64)
    patches = 36 * 32 * 3 * 8 * 8
    projector = 2 * 36 * 32 * 32
    return tower + patches + projector + 32 * 300


def test_dense_count_is_the_arithmetic(tiny_workload):
    shape = tiny_workload.shape
    counted, trace = flops_counted.measure(tiny_workload, None)
    tokens = shape.visual_tokens + shape.text_tokens
    assert counted.torch_flops == 2 * (6 * decoder_macs(tokens) + outside_decoder_macs())
    assert trace is None
    assert counted.uncounted == ()
    assert counted.selection_flops == 0


def test_fvcore_agrees_but_for_the_vision_layer_that_nothing_reads(tiny_workload):
    counted, _ = flops_counted.measure(tiny_workload, None)
    # vision_feature_layer = -2: the last layer runs, its output goes nowhere, and tracing leaves it out.
    dead_layer = 4 * 37 * 32 * 32 + 2 * 37 * 37 * 32 + 2 * 37 * 32 * 64
    assert counted.fvcore_reason is None
    assert counted.torch_flops == 2 * (counted.fvcore_macs + dead_layer)


def test_pruned_count_is_the_arithmetic_of_the_schedule(tiny_workload):
    shape = tiny_workload.shape
    schedule = Schedule.average(retention=0.4, visual_tokens=36, num_layers=6)
    counted, trace = flops_counted.measure(tiny_workload, Random(retention=0.4))
    decoder = sum(decoder_macs(n + shape.text_tokens) for n in schedule.tokens_by_layer)
    assert counted.torch_flops == 2 * (decoder + outside_decoder_macs())
    assert counted.selection_flops == 0
    assert trace.realised_retention == schedule.layer_average


def test_a_methods_own_work_is_counted_apart(tiny_workload):
    random, _ = flops_counted.measure(tiny_workload, Random(retention=0.4))
    trio, _ = flops_counted.measure(tiny_workload, Trio(retention=0.4))
    assert trio.selection_flops > 0
    assert trio.torch_flops - trio.selection_flops == random.torch_flops
    # fvcore's tracer cannot follow autograd: the choice is replayed, so the model's own work is left.
    assert trio.fvcore_reason is None
    assert trio.fvcore_macs == random.fvcore_macs


def test_autograd_costs_two_forwards_and_more(tiny_workload):
    """γ by hand at one stage: linears once forward, once back; attention 2 products forward, 5 back in its kernel."""
    trio = Trio(retention=0.5, layers=(1,), nms=False, saliency="autograd")
    counted, _ = flops_counted.measure(tiny_workload, trio)
    tokens = tiny_workload.shape.visual_tokens + tiny_workload.shape.text_tokens
    linears = 4 * tokens * 32 * 32 + 3 * tokens * 32 * 80
    product = tokens * tokens * 32
    head = 4 * 32 * 300
    assert counted.selection_flops == 2 * (2 * linears + 2 * product + 5 * product + 2 * head)


def test_a_model_that_fvcore_cannot_trace_keeps_the_other_count(tiny_workload, monkeypatch):
    def breaks(_workload):
        raise RuntimeError("cannot trace\nbecause of this")

    monkeypatch.setattr(flops_counted, "_traced", breaks)
    counted, _ = flops_counted.measure(tiny_workload, None)
    assert counted.fvcore_macs is None
    assert counted.fvcore_reason == "RuntimeError: cannot trace"
    assert counted.torch_flops > 0


def test_an_operator_without_a_formula_is_listed(tiny_workload, monkeypatch):
    monkeypatch.setattr(flops_counted, "supplied", dict)
    counted, _ = flops_counted.measure(tiny_workload, None)
    assert counted.uncounted == ("aten._scaled_dot_product_flash_attention_for_cpu",)


@pytest.mark.parametrize(
    ("name", "suspect"),
    [
        ("aten.linear", True),
        ("aten.bilinear", True),
        ("aten._scaled_dot_product_efficient_attention", True),
        ("other_library.anything", True),
        ("aten.upsample_bilinear2d", False),
        ("aten.add", False),
    ],
)
def test_which_names_speak_of_a_product(name, suspect):
    assert flops_counted.Operator(name, 1, 8, 0, None).has_product == suspect


def test_eager_and_sdpa_count_alike(tiny_workload):
    sdpa, _ = flops_counted.measure(tiny_workload, Random(retention=0.4))
    tiny_workload.model.set_attn_implementation("eager")
    try:
        eager, _ = flops_counted.measure(tiny_workload, Random(retention=0.4))
    finally:
        tiny_workload.model.set_attn_implementation("sdpa")
    assert eager.torch_flops == sdpa.torch_flops
    assert eager.fvcore_macs == sdpa.fvcore_macs


# --- cache and memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", [0.3, 0.55, 1.0])
def test_held_bytes_are_the_predicted_ones_in_every_layer(tiny_workload, retention):
    method = Grid(retention=retention)
    schedule = method.schedule(36, 6)
    held = kv_cache.measure(tiny_workload, method)
    shape = tiny_workload.shape
    assert held == [(n + shape.text_tokens) * 2 * 32 * 4 for n in schedule.tokens_by_layer]
    assert sum(held) == kv_cache.predicted_bytes(shape, schedule.tokens_by_layer)


def test_held_bytes_of_a_cache_made_by_hand():
    cache = DynamicCache()
    for layer, tokens in enumerate((7, 3)):
        cache.update(torch.zeros(2, 4, tokens, 8), torch.zeros(2, 4, tokens, 8), layer)
    assert kv_cache.held_bytes(cache) == [2 * 2 * 4 * 7 * 8 * 4, 2 * 2 * 4 * 3 * 8 * 4]


def test_peak_memory_repeats_exactly_and_falls_with_retention(tiny_workload):
    dense, pruned = memory.measure(tiny_workload, None), memory.measure(tiny_workload, Grid(retention=0.3))
    assert dense == memory.measure(tiny_workload, None)
    assert pruned.peak_bytes < dense.peak_bytes
    for peak in (dense, pruned):
        assert 0 < peak.working_bytes < peak.peak_bytes
        assert peak.reserved_bytes is None


def test_the_cache_is_what_a_prefill_without_one_saves(tiny_workload):
    """At the end of the decoder, where the peak of this model lies, all layers' caches but the last's are there."""
    dense = memory.measure(tiny_workload, None)
    *_, last = held = kv_cache.measure(tiny_workload, None)
    assert sum(held) - last <= dense.peak_bytes - dense.working_bytes <= sum(held)


def test_launches_and_waits_are_counted_exactly(tiny_workload):
    def counted(work) -> launches.Launches:
        with launches.Counter() as counter:
            work()
        return counter.counted

    x = torch.arange(12.0).view(3, 4)
    assert counted(lambda: (x @ x.T).view(9)[2:5].t()) == launches.Launches(1, 0)
    assert counted(lambda: (x + 1).tolist()) == launches.Launches(1, 1)
    assert counted(lambda: x[x > 3]).host_waits == 1
    assert counted(lambda: x[torch.tensor([0, 2])]).host_waits == 0
    assert counted(lambda: bool((x > 3).any()) and float(x[0, 0])).host_waits == 2
    dense = launches.measure(tiny_workload, None)
    assert dense == launches.measure(tiny_workload, None)
    pruned = launches.measure(tiny_workload, Grid(retention=0.3))
    assert pruned.launches > dense.launches


def test_live_bytes_of_operators_by_hand():
    held = torch.zeros(1000)
    with memory._LiveBytes([held]) as live:
        a = torch.ones(256)  # 1 KiB
        b = a + 1  # 2 KiB
        del a
        c = b.view(16, 16)  # a view holds nothing of its own
        d = held + 1  # 4000 bytes more
        del d, c
    assert live.peak == 2048 + 4000 - 1024
    assert live.now == 1024


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


def test_the_order_of_every_selection_is_checked_without_a_host_wait(tiny_workload):
    """A context is opened for every run that is timed, and no run waits more than another."""
    chooses, model = Random(retention=0.4, seed=977), tiny_workload.model
    waits: list[int] = []
    for _ in range(2):
        with prune(model, chooses), launches.Counter() as counter:
            tiny_workload.prefill()
        waits.append(counter.counted.host_waits)
    assert waits[0] == waits[1]
