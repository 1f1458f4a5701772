"""The clocks that profilers read: device time on CUDA, host time on a CPU, and whatever a test hands in."""

import time
from typing import Any, Protocol

import torch

from trio_profile.errors import StudyError


class Clock(Protocol):
    """Marks moments in the stream of work and tells how far apart they are."""

    def prepare(self) -> None:
        """Bring the device into the state that each run is to begin in."""
        ...

    def mark(self) -> Any:
        """Now, in the order of the work that was issued."""
        ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks; waits for the work between them."""
        ...


class HostClock:
    """`perf_counter_ns`: right where work is done when the call returns."""

    def prepare(self) -> None:
        """Nothing to do."""

    def mark(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        return time.perf_counter_ns()

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two marks."""
        return (end - start) / 1e6


class CudaClock:
    """CUDA events: device time, without a synchronisation inside what is timed.

    preroll_ms: keep the stream busy for so long before a run, so that the host issues work ahead of the device and its
    own time is not in the gaps between kernels (nvbench's blocking kernel). cold_l2: overwrite the L2 cache before it.
    """

    def __init__(self, device: torch.device, *, preroll_ms: float = 0.0, cold_l2: bool = False):
        self.device = device
        self.preroll_ms = preroll_ms
        self.cold_l2 = cold_l2

    def prepare(self) -> None:
        """Cache first, then the pre-roll, behind which the run queues up."""
        if not (self.cold_l2 or self.preroll_ms):
            return
        properties = torch.cuda.get_device_properties(self.device)
        if self.cold_l2:
            torch.empty(2 * properties.L2_cache_size, dtype=torch.int8, device=self.device).zero_()
        if self.preroll_ms:
            torch.cuda._sleep(int(self.preroll_ms * properties.clock_rate))  # kHz: cycles in a millisecond

    def mark(self) -> torch.cuda.Event:
        """An event recorded on the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ms(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Milliseconds between two events, once both have happened."""
        end.synchronize()
        return start.elapsed_time(end)


def clock_for(device: torch.device, *, preroll_ms: float = 0.0, cold_l2: bool = False) -> Clock:
    """The clock that tells the truth about a device.

    Raises StudyError for a device that has none, and for a pre-roll or a cold cache where there is no CUDA.
    """
    if device.type == "cuda":
        return CudaClock(device, preroll_ms=preroll_ms, cold_l2=cold_l2)
    if preroll_ms or cold_l2:
        asked = f"preroll_ms {preroll_ms:g}" if preroll_ms else "cold_l2"
        raise StudyError(f"{asked} on device {device}: only CUDA has a stream to fill and a cache to overwrite")
    if device.type == "cpu":
        return HostClock()
    raise StudyError(f"device {device} has no clock that we know how to read; choose cpu or cuda")
