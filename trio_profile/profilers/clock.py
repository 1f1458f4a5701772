"""The clocks that profilers read: device time on CUDA, host time on a CPU, and whatever a test hands in."""

import time
from typing import Any, Protocol

import torch

from trio_profile.errors import StudyError


class Clock(Protocol):
    """Marks moments in the stream of work and tells how far apart they are."""

    def mark(self) -> Any:
        """Now, in the order of the work that was issued."""
        ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks; waits for the work between them."""
        ...


class HostClock:
    """`perf_counter_ns`: right where work is done when the call returns."""

    def mark(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        return time.perf_counter_ns()

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two marks."""
        return (end - start) / 1e6


class CudaClock:
    """CUDA events: device time, without a synchronisation inside what is timed."""

    def mark(self) -> torch.cuda.Event:
        """An event recorded on the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ms(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Milliseconds between two events, once both have happened."""
        end.synchronize()
        return start.elapsed_time(end)


def clock_for(device: torch.device) -> Clock:
    """The clock that tells the truth about a device."""
    if device.type == "cuda":
        return CudaClock()
    if device.type == "cpu":
        return HostClock()
    raise StudyError(f"device {device} has no clock that we know how to read; choose cpu or cuda")
