"""A pretended NVML: the clocks, the energy and the processes of the pretended devices. It stands for `pynvml`."""

import os
import time
from types import SimpleNamespace

from tests.rehearsal import cuda

NVML_CLOCK_SM = 1
nvmlClocksEventReasonGpuIdle = 0x1
nvmlClocksEventReasonSwPowerCap = 0x4
nvmlClocksEventReasonHwSlowdown = 0x8
nvmlClocksEventReasonSwThermalSlowdown = 0x20
nvmlClocksEventReasonHwThermalSlowdown = 0x40
nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80

HIGHEST_MHZ, IDLE_MHZ = 1980, 345
IDLE_AFTER = 0.2
"""A device without work lowers its clock after so many seconds."""
IDLE_WATTS, WATTS, STEP = 70, 500, 0.1
"""The power, and the seconds between two steps of the energy counter."""


class NVMLError(Exception):
    pass


def _require(*lacking: str) -> None:
    """Raise NVMLError if the driver of this rehearsal is one of those that lack a query."""
    if os.environ.get("REHEARSAL_NVML", "all") in ("absent", *lacking):
        raise NVMLError("Not Supported")


def nvmlInit() -> None:
    _require()


def nvmlSystemGetDriverVersion() -> str:
    _require()
    return "580.95.05"


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    """The number of the device."""
    return next(number for number in range(cuda.devices()) if uuid == f"GPU-{cuda.uuid(number)}")


def nvmlDeviceGetMaxClockInfo(device: int, kind: int) -> int:
    _require("virtual")
    return HIGHEST_MHZ


def nvmlDeviceGetClockInfo(device: int, kind: int) -> int:
    return IDLE_MHZ if _is_idle(device) else int(os.environ.get("REHEARSAL_MHZ", HIGHEST_MHZ))


def nvmlDeviceGetCurrentClocksEventReasons(device: int) -> int:
    idle = nvmlClocksEventReasonGpuIdle if _is_idle(device) else 0
    return int(os.environ.get("REHEARSAL_SLOWED", "0")) | idle


def nvmlDeviceGetTotalEnergyConsumption(device: int) -> int:
    """Millijoules, as of the last step."""
    _require("no energy")
    seconds = time.perf_counter() // STEP * STEP
    return int(1000 * (IDLE_WATTS * seconds + (WATTS - IDLE_WATTS) * cuda.card(device).busy_s))


def nvmlDeviceGetComputeRunningProcesses(device: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=os.getpid())]


def _is_idle(device: int) -> bool:
    return time.perf_counter() - cuda.card(device).ready > IDLE_AFTER
