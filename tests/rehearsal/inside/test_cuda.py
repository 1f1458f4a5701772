"""The pretended device is as strict as a real one."""

import os
import time

import pytest
import torch

from tests.rehearsal import cuda


def waits(run) -> int:
    """How often the host waits for the device in a call."""
    before = cuda.card().waits
    run()
    return cuda.card().waits - before


def test_a_tensor_holds_data_and_an_operator_computes_it():
    values = torch.arange(6.0, device="cuda").view(2, 3)
    assert values.is_cuda and str(values.device) == "cuda:0"
    assert (values @ values.T).tolist() == [[5, 14], [14, 50]]
    values[0, 0] = 7
    assert values.cpu().sum() == 22


def test_gradients_flow_through_a_module_on_the_device():
    layer = torch.nn.Linear(2, 1).to("cuda")
    layer(torch.ones(3, 2, device="cuda")).sum().backward()
    assert layer.weight.grad.device.type == "cuda" and layer.weight.grad.tolist() == [[3, 3]]


def test_an_operator_with_a_kernel_of_its_own_is_one_operator():
    names = []
    gate = torch.ones(3, device="cuda", requires_grad=True)
    opened = torch.nn.functional.silu(gate)
    with cuda.watching(lambda name, _: names.append(name)):
        (slope,) = torch.autograd.grad(opened, gate, torch.ones_like(opened))
    assert names.count("silu_backward") == 1 and "sigmoid" not in names
    assert slope.tolist() == pytest.approx([0.9276705] * 3)


def test_an_event_that_is_read_before_it_is_complete_raises(monkeypatch):
    monkeypatch.setenv("REHEARSAL_OPERATOR_MS", "20")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(2, device="cuda") + 1
    end.record()
    with pytest.raises(RuntimeError, match="not ready"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) >= 40


def test_two_devices_do_not_mix(monkeypatch):
    monkeypatch.setenv("REHEARSAL_DEVICES", "2")
    first, second = (torch.ones(2, device=f"cuda:{number}") for number in range(2))
    for other in (second, torch.ones(2)):
        with pytest.raises(RuntimeError, match="same device"):
            first + other
    assert (first + second.to("cuda:0")).tolist() == (first + torch.tensor(1)).tolist() == [2, 2]
    torch.cuda.set_device("cuda:1")
    assert torch.ones(1, device="cuda").device.index == torch.cuda.current_device() == 1


def test_reads_of_values_and_copies_from_pageable_memory_are_waits():
    host, there, mask = torch.ones(4), torch.ones(4, device="cuda"), torch.ones(4, device="cuda") > 0
    pinned = host.pin_memory()
    for run, number in (
        (lambda: there + 1, 0),
        (lambda: float(there[0]), 1),
        (lambda: there.tolist(), 1),
        (lambda: there[mask], 1),
        (lambda: there.nonzero(), 1),
        (lambda: host.to("cuda"), 1),
        (lambda: host.to("cuda", non_blocking=True), 1),
        (lambda: pinned.to("cuda"), 1),
        (lambda: pinned.to("cuda", non_blocking=True), 0),
        (lambda: torch.tensor([1, 2], device="cuda"), 1),
        (lambda: there.to("cpu", non_blocking=True), 0),
        (lambda: torch.empty(4, pin_memory=True).copy_(there, non_blocking=True), 0),
        (lambda: torch.empty(4).copy_(there, non_blocking=True), 1),
    ):
        assert waits(run) == number


def test_a_wait_lasts_until_the_work_is_done(monkeypatch):
    monkeypatch.setenv("REHEARSAL_OPERATOR_MS", "30")
    begin = time.perf_counter()
    values = torch.ones(2, device="cuda") + 1
    issued = time.perf_counter()
    assert values.tolist() == [2, 2]
    assert issued - begin < 0.03 <= 0.06 <= time.perf_counter() - begin


def test_memory_is_counted_and_finite(monkeypatch):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    monkeypatch.setenv("REHEARSAL_MEMORY", str(before + 2**20))
    kept = torch.zeros(2**19, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(2**20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 2**19 == kept[1:].view(-1).numel() + 1
    del kept
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_reserved() == before + 2**19
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before


def test_a_forked_process_cannot_use_the_context():
    torch.ones(1, device="cuda")
    if not (pid := os.fork()):
        try:
            torch.ones(1, device="cuda")
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
