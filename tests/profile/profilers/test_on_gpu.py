"""What only a GPU can show; where the same holds on a CPU, it is held there too, so that the test itself is tried."""

import re
import statistics
import time
import warnings
from functools import cache

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from tests.profile.studying import make
from trio_core import Trio, methods, prune
from trio_core.methods.method import Method
from trio_core.spans import listening
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import generation, gpu, launches, memory
from trio_profile.profilers.clock import CudaClock, clock_for

needs_cuda = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))
every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])


def only_gpu(test):
    """Marks a test that has nothing to show on a CPU."""
    for mark in needs_cuda:
        test = mark(test)
    return test


@cache
def workload(device: str, dtype: str = "bfloat16", model: str = "pocket") -> Workload:
    return build(make(model=model, device=device, dtype=dtype, fidelity_inputs=0, new_tokens=2))


def method(name: str, retention: float = 0.333) -> Method:
    return methods.find(name)(retention=retention)


# --- the clock -------------------------------------------------------------------------------------------------------


@only_gpu
def test_events_agree_with_the_host_over_a_wait_of_known_length():
    clock, ratios = CudaClock(torch.device("cuda")), []
    for _ in range(10):
        torch.cuda.synchronize()
        began, start = time.perf_counter(), clock.mark()
        torch.cuda._sleep(100_000_000)
        end = clock.mark()
        torch.cuda.synchronize()
        ratios.append(clock.elapsed_ms(start, end) / (1e3 * (time.perf_counter() - began)))
    assert statistics.median(ratios) == pytest.approx(1, rel=0.02)


@only_gpu
def test_the_parts_of_a_prefill_lie_within_it():
    work = workload("cuda")
    with prune(work.model, method("trio")):
        times = generation.timed(work.model, work.adapter, work.generate, clock_for(work.device))
    assert 0 < times.vision_ms + times.projector_ms + times.selection_ms <= times.prefill_ms <= times.total_ms
    assert times.selection_ms > 0


# --- what the host waits for -----------------------------------------------------------------------------------------


@only_gpu
@pytest.mark.parametrize(("name", "most"), [("random", 0), ("grid", 0), ("fastv", 1), ("lookahead", 3), ("trio", 3)])
def test_cuda_sees_no_more_waits_in_a_selection_than_are_counted_without_it(name: str, most: int):
    """torch itself says where the host waited: once in each of three stages."""
    work, chooses = workload("cuda"), method(name)
    with prune(work.model, chooses):
        work.prefill()  # the first prefill on a model also checks what the method kept
        with warnings.catch_warnings(record=True) as heard, listening(_debugged):
            warnings.simplefilter("always")
            work.prefill()
    waits = [str(one.message) for one in heard if "called a synchronizing" in str(one.message)]
    counted = launches.measure(work, chooses).host_waits - launches.measure(work, None).host_waits
    assert len(waits) <= min(most, counted), waits


def _debugged(name: str, entering: bool) -> None:
    if name == "selection":
        torch.cuda.set_sync_debug_mode("warn" if entering else "default")


@only_gpu
def test_launches_and_waits_are_those_of_a_cpu():
    for name in ("random", "grid", "divprune"):
        there, here = (launches.measure(workload(device), method(name)) for device in ("cuda", "cpu"))
        assert there.host_waits == here.host_waits
        assert there.launches == pytest.approx(here.launches, rel=0.02)


# --- kernels, precision, bytes ---------------------------------------------------------------------------------------


@only_gpu
@pytest.mark.parametrize("name", ["", "trio", "random"])
def test_the_flash_kernel_runs_in_every_layer_dense_and_pruned(name: str):
    work = workload("cuda", model="pocket-deep")
    with work.pruned(method(name) if name else None):
        kernels = _kernels(work)
    # FlashAttention's own say `flash_fwd`, cuDNN's `flash_fprop`.
    flash = [kernel for kernel in kernels if re.search("flash.*(fwd|fprop)", kernel.lower())]
    assert len(flash) >= work.shape.num_layers, sorted(set(kernels))
    assert not any("mem_efficient" in kernel or "fmha_cutlass" in kernel for kernel in kernels)


def _kernels(work: Workload) -> list[str]:
    work.prefill()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        work.prefill()
        torch.cuda.synchronize()
    return [event.name for event in seen.events() if event.device_type == DeviceType.CUDA]


@pytest.mark.slow
@every_device
@pytest.mark.parametrize("name", ["trio", "lookahead"])
def test_bfloat16_keeps_what_float32_keeps(device: str, name: str):
    """The trained pocket, first stage: later ones choose from what it kept, and so from other tokens."""
    kept = []
    for where, dtype in (("cpu", "float32"), (device, "bfloat16")):
        work = workload(where, dtype)
        with prune(work.model, method(name)) as trace:
            work.prefill()
        kept.append(set(trace.stages[0].kept[0].tolist()))
    exact, rounded = kept
    assert len(exact) == len(rounded)
    assert len(exact & rounded) >= 0.9 * len(exact)


@pytest.mark.slow
@every_device
def test_a_pruned_prefill_peaks_no_higher_than_dense(device: str):
    work = workload(device)
    with prune(work.model, Trio(retention=0.333)):
        work.prefill()  # the first backward takes a workspace, for good
    dense, pruned = memory.measure(work, None), memory.measure(work, Trio(retention=0.333))
    assert 0 < pruned.working_memory_bytes <= pruned.peak_memory_bytes
    assert pruned.peak_memory_bytes <= dense.peak_memory_bytes
    assert (dense.peak_reserved_bytes is None) == (device == "cpu")
    if dense.peak_reserved_bytes is not None:
        assert dense.peak_reserved_bytes > dense.peak_memory_bytes


# --- the device's own figures ----------------------------------------------------------------------------------------


@only_gpu
def test_nvml_tells_what_a_study_records():
    found = gpu.Gpu(torch.device("cuda"))
    assert 0 < found.clock_mhz() <= found.full_clock_mhz
    assert isinstance(found.slowed_by(), tuple) and isinstance(found.others(), tuple)
    before = found.energy_j()
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    began = time.perf_counter()
    while time.perf_counter() - began < 1:
        a @ a
        torch.cuda.synchronize()
    assert 20 < found.energy_j() - before < 2000  # joules in a second: no GPU draws less, or more
