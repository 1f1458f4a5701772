"""The clocks that profilers read: device time on CUDA, host time on a CPU. A test may pass a clock of its own."""

import time
from typing import Any, TypeAlias

import torch

from trio_profile.errors import StudyError


class HostClock:
    """The host's clock. It is right if all work is done when a call returns, as on a CPU."""

    def prepare(self) -> None:
        """Bring the device into the state in which each run begins: nothing to do."""

    def mark(self) -> Any:
        """Mark a moment behind all work that was issued so far: nanoseconds of a monotonic clock."""
        return time.perf_counter_ns()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks."""
        return (end - start) / 1e6


class CudaClock:
    """CUDA events. They measure device time and need no synchronisation inside the timed work.

    preroll_ms: keep the stream busy for so long before a run. The host then issues work ahead of the device, and its
        own time does not appear as gaps between kernels (nvbench's blocking kernel).
    cold_l2: overwrite the L2 cache before a run.
    """

    def __init__(self, device: torch.device, *, preroll_ms: float = 0.0, cold_l2: bool = False):
        self.device = device
        self.preroll_ms = preroll_ms
        self.cold_l2 = cold_l2

    def prepare(self) -> None:
        """Overwrite the cache, then start the pre-roll. The run is queued behind it."""
        if not (self.cold_l2 or self.preroll_ms):
            return
        properties = torch.cuda.get_device_properties(self.device)
        if self.cold_l2:
            torch.empty(2 * properties.L2_cache_size, dtype=torch.int8, device=self.device).zero_()
        if self.preroll_ms:
            torch.cuda._sleep(int(self.preroll_ms * properties.clock_rate))  # kHz: cycles in a millisecond

    def mark(self) -> Any:
        """An event recorded on the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events. Waits until both have happened."""
        end.synchronize()
        return start.elapsed_time(end)


Clock: TypeAlias = HostClock | CudaClock
"""Marks moments in the stream of work and measures the time between them."""


def clock_for(device: torch.device, *, preroll_ms: float = 0.0, cold_l2: bool = False) -> Clock:
    """The right clock for a device.

    Raises StudyError if we have none for it, or if a pre-roll or a cold cache is asked for without CUDA.
    """
    if device.type == "cuda":
        return CudaClock(device, preroll_ms=preroll_ms, cold_l2=cold_l2)
    if preroll_ms or cold_l2:
        asked = f"preroll_ms {preroll_ms:g}" if preroll_ms else "cold_l2"
        raise StudyError(f"{asked} on device {device}: only CUDA has a stream to fill and a cache to overwrite")
    if device.type == "cpu":
        return HostClock()
    raise StudyError(f"device {device} cannot be timed; choose cpu or cuda")
