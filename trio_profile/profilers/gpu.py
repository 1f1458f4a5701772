"""What a GPU says of itself beside the work: energy, clocks, why it slows down, and who else is on it. NVML only."""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from trio_profile.errors import ProfileError

SLOWED = {
    "SwPowerCap": "power limit",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature, by the driver",
    "HwThermalSlowdown": "temperature",
    "HwPowerBrakeSlowdown": "power brake",
}
"""NVML's clock event reasons that mean less work per second, in words."""


class NotAvailable(ProfileError):
    """The device does not tell; the message is the reason."""


class Gpu(Protocol):
    """One GPU's own figures. Reading them takes a millisecond or so: between samples, never within one."""

    def energy_j(self) -> float:
        """Joules since the driver was loaded; counts on in steps of some 10 to 100 ms."""
        ...

    def clock_mhz(self) -> int | None:
        """The SM clock now; None where it does not tell."""
        ...

    def full_clock_mhz(self) -> int:
        """The SM clock that it runs at when nothing slows it down."""
        ...

    def slowed_by(self) -> tuple[str, ...]:
        """Why it is slower than it could be, in words; nothing where it is not."""
        ...

    def others(self) -> tuple[int, ...]:
        """Processes on it that are not this one."""
        ...


def gpu_for(device: torch.device) -> Gpu:
    """The figures of a CUDA device. Raises NotAvailable with the reason anywhere else."""
    if device.type != "cuda":
        raise NotAvailable(f"device {device.type} has no NVML: energy and clocks are a GPU's")
    return NvmlGpu(device)


class NvmlGpu:
    """NVML's figures of one device, found by its UUID, for CUDA may number devices otherwise."""

    def __init__(self, device: torch.device):
        import os

        import pynvml

        self._nvml: Any = pynvml
        self._me = os.getpid()
        uuid = torch.cuda.get_device_properties(device).uuid
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self._full = pynvml.nvmlDeviceGetMaxClockInfo(self._handle, pynvml.NVML_CLOCK_SM)
        except pynvml.NVMLError as error:
            raise NotAvailable(f"NVML does not know {device}: {error}") from error

    def energy_j(self) -> float:
        """Joules since the driver was loaded. Raises NotAvailable for a GPU without the counter."""
        try:
            return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000
        except self._nvml.NVMLError as error:
            raise NotAvailable(f"this GPU has no energy counter: {error}") from error

    def clock_mhz(self) -> int | None:
        """The SM clock now; None where it does not tell."""
        return self._asked(None, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def full_clock_mhz(self) -> int:
        """The highest SM clock."""
        return self._full

    def slowed_by(self) -> tuple[str, ...]:
        """Why it is slower than it could be; nothing where it does not tell."""
        mask = self._asked(0, self._nvml.nvmlDeviceGetCurrentClocksEventReasons)
        reasons = ((getattr(self._nvml, f"nvmlClocksEventReason{name}", 0), words) for name, words in SLOWED.items())
        return tuple(words for bit, words in reasons if bit and mask & bit)

    def others(self) -> tuple[int, ...]:
        """Compute processes on it that are not this one; nothing where it does not tell."""
        running = self._asked((), self._nvml.nvmlDeviceGetComputeRunningProcesses)
        pids = {process.pid for process in running}
        # A container may number its processes otherwise than the driver: who alone is on it is this one.
        return tuple(sorted(pids - {self._me})) if self._me in pids else tuple(sorted(pids))[1:]

    def _asked(self, otherwise: Any, question: Callable[..., Any], *arguments: Any) -> Any:
        """What NVML answers, or `otherwise` where this machine does not have it told."""
        try:
            return question(self._handle, *arguments)
        except self._nvml.NVMLError:
            return otherwise
