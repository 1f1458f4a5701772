"""The readings of a GPU through NVML: its energy, its clocks, why it is slow, and other processes on it."""

import os
from collections.abc import Callable
from typing import Any

import torch

from trio_profile.errors import ProfileError

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

    full_clock_mhz: the highest SM clock: the one when nothing slows the GPU down.
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
            self.full_clock_mhz: int = pynvml.nvmlDeviceGetMaxClockInfo(self._handle, pynvml.NVML_CLOCK_SM)
        except pynvml.NVMLError as error:
            raise NotAvailable(f"NVML does not know {device}: {error}") from error

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
