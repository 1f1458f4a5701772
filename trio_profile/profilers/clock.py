"""The clocks that profilers read: device time on CUDA, host time on a CPU. A test may pass a clock of its own."""

import time
from typing import Any, TypeAlias

import torch

from trio_profile.errors import StudyError


class HostClock:
    """The host's clock. It is right if all work is done when a call returns, as on a CPU."""

    def mark(self) -> Any:
        """Mark a moment behind all work that was issued so far: nanoseconds of a monotonic clock."""
        return time.perf_counter_ns()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks."""
        return (end - start) / 1e6


class CudaClock:
    """CUDA events. They measure device time and need no synchronisation inside the timed work.

    device: the one that works. Another one may be current in this thread.
    """

    def __init__(self, device: torch.device):
        self._device = device

    def mark(self) -> Any:
        """An event recorded on the device's current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events. Waits until both have happened."""
        end.synchronize()
        return start.elapsed_time(end)


Clock: TypeAlias = HostClock | CudaClock
"""Marks moments in the stream of work and measures the time between them."""


def clock_for(device: torch.device) -> Clock:
    """The right clock for a device. Raises StudyError if we have none for it."""
    if device.type == "cuda":
        return CudaClock(device)
    if device.type == "cpu":
        return HostClock()
    raise StudyError(f"device {device} cannot be timed; choose cpu or cuda")
