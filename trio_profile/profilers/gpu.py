"""The readings of a GPU through NVML: its energy, its clocks, why it is slow, and other processes on it.

The energy of a prefill and of a decoded token is above idle. The counter moves in steps of up to 100 ms, which is too
coarse for one prefill. So the work is repeated for at least two seconds. The energy that the idle device would use in
this time is subtracted.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from trio_core.methods.method import Method
from trio_profile.errors import ProfileError
from trio_profile.inputs.workload import Workload
from trio_profile.records.schema import Energy

ENERGY_SECONDS = 2.0
IDLE_SECONDS = 1.0

SLOWED = {
    "SwPowerCap": "power limit",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature, by the driver",
    "HwThermalSlowdown": "temperature",
    "HwPowerBrakeSlowdown": "power brake",
}
"""NVML's reasons for a lower clock, in words."""


class NotAvailable(ProfileError):
    """The device does not report the quantity. The message says why."""


class Gpu:
    """NVML's readings of one device. A reading takes about a millisecond, so it is taken between samples.

    The device is found by its UUID, because CUDA may number devices differently. Raises NotAvailable for
    another device than CUDA's, and for one that NVML does not know.

    full_clock_mhz: the highest SM clock: the one when nothing slows the GPU down. None if the GPU does not report it,
        as a virtual one does not.
    """

    def __init__(self, device: torch.device):
        if device.type != "cuda":
            raise NotAvailable(f"device {device.type} has no NVML: energy and clocks are a GPU's")
        import pynvml

        self._nvml: Any = pynvml
        self._me = os.getpid()
        uuid = torch.cuda.get_device_properties(device).uuid
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except pynvml.NVMLError as error:
            raise NotAvailable(f"NVML does not know {device}: {error}") from error
        self.full_clock_mhz: int | None = self._answer(None, pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM)

    def energy_j(self) -> float:
        """Joules since the driver was loaded. The counter moves in steps of 10 to 100 ms.

        Raises NotAvailable for a GPU without the counter.
        """
        try:
            return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000
        except self._nvml.NVMLError as error:
            raise NotAvailable(f"this GPU has no energy counter: {error}") from error

    def clock_mhz(self) -> int | None:
        """The current SM clock; None if the GPU does not report it."""
        return self._answer(None, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def slowed_by(self) -> tuple[str, ...]:
        """The reasons for a lower clock, in words; empty if the GPU does not report them."""
        mask = self._answer(0, self._nvml.nvmlDeviceGetCurrentClocksEventReasons)
        reasons = ((getattr(self._nvml, f"nvmlClocksEventReason{name}", 0), words) for name, words in SLOWED.items())
        return tuple(words for bit, words in reasons if bit and mask & bit)

    def others(self) -> tuple[int, ...]:
        """Ids of other compute processes; empty if the GPU does not report them."""
        running = self._answer((), self._nvml.nvmlDeviceGetComputeRunningProcesses)
        pids = {process.pid for process in running}
        # In a container process ids may differ from the driver's. If the GPU lists one process, we assume it is ours.
        return tuple(sorted(pids - {self._me})) if self._me in pids else tuple(sorted(pids))[1:]

    def _answer(self, otherwise: Any, query: Callable[..., Any], *arguments: Any) -> Any:
        """NVML's answer, or `otherwise` if this machine does not support the query."""
        try:
            return query(self._handle, *arguments)
        except self._nvml.NVMLError:
            return otherwise


def measure_energy(workload: Workload, method: Method | None, gpu: Gpu | None = None) -> Energy:
    """Joules of a prefill and of each token that is decoded after it, or the reason why they are unknown.

    method: None for the dense model.
    gpu: a test may replace the device.
    """
    try:
        gpu = gpu or Gpu(workload.device)
        idle_w = _idle_watts(workload, gpu)
        with workload.pruned(method):
            prefill_j = _joules(workload, workload.prefill, gpu, idle_w)
            whole_j = _joules(workload, workload.generate, gpu, idle_w)
    except NotAvailable as reason:
        return Energy(reason=str(reason))
    tokens = workload.new_tokens - 1
    return Energy(
        prefill_j=prefill_j,
        token_j=(whole_j - prefill_j) / tokens if tokens else None,
        idle_w=idle_w,
        seconds=ENERGY_SECONDS,
    )


def _idle_watts(workload: Workload, gpu: Gpu) -> float:
    _finish(workload)
    started, before = time.perf_counter(), gpu.energy_j()
    time.sleep(IDLE_SECONDS)
    return (gpu.energy_j() - before) / (time.perf_counter() - started)


def _joules(workload: Workload, run: Callable[[], object], gpu: Gpu, idle_w: float) -> float:
    """Joules of one run above idle, averaged over two seconds. Raises NotAvailable if the counter does not move."""
    run()
    _finish(workload)
    started, before, runs = time.perf_counter(), gpu.energy_j(), 0
    while time.perf_counter() - started < ENERGY_SECONDS:
        run()
        _finish(workload)
        runs += 1
    spent, seconds = gpu.energy_j() - before, time.perf_counter() - started
    if spent <= 0:
        raise NotAvailable(f"the energy counter did not move in {seconds:.1f} s of work")
    return (spent - idle_w * seconds) / runs


def _finish(workload: Workload) -> None:
    if workload.device.type == "cuda":
        torch.cuda.synchronize(workload.device)
