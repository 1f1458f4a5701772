"""One generation on a fake clock."""

import time

import torch

from tests.profile.faking import FakeClock
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.profilers import clock as clocks
from trio_profile.profilers.rounds import run


def test_one_run_marks_the_first_forward_and_the_whole(tiny_workload):
    # Marks in order: generate begins, the first module begins, the tower, the projector, the first forward ends,
    # generate ends.
    times = run(tiny_workload, FakeClock([0, 1, 1, 3, 1, 2, 5, 20]))
    assert (times.prefill_ms, times.ttft_ms, times.total_ms) == (12, 13, 33)
    assert (times.vision_ms, times.projector_ms, times.selection_ms) == (3, 2, None)
    assert times.host_ms is not None and times.host_ms > 0  # beside a clock that is not the host's own
    assert run(tiny_workload, clocks.HostClock()).host_ms is None


def test_the_timing_hooks_leave_nothing(tiny_workload):
    run(tiny_workload, FakeClock())
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not tiny_workload.model._forward_hooks
    assert not tiny_workload.model._forward_pre_hooks
    for _, module in beside_the_decoder(tiny_workload.adapter):
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_cpu_time_is_that_of_the_prefill_alone_and_only_by_the_hosts_clock(tiny_workload, monkeypatch):
    readings = iter([1_000_000, 8_000_000])
    monkeypatch.setattr(time, "process_time_ns", lambda: next(readings))
    assert run(tiny_workload, clocks.HostClock()).cpu_ms == 7.0
    assert run(tiny_workload, FakeClock()).cpu_ms is None  # a device works, and the CPU waits
