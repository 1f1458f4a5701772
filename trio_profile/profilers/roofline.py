"""What the device can do at most, measured and not from a datasheet: multiply-adds and bytes a second.

A prefill's share of the first is its MFU; what reading every weight once takes of the second is its MBU. Each is the
best of several tries, for a bound is what nothing exceeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trio_profile.profilers.clock import Clock, clock_for

TRIES = 5
_SIDE = {"cuda": 8192, "cpu": 1536}
"""Of the square matrices: large enough that the product is all that costs."""
_BYTES = {"cuda": 2**30, "cpu": 2**27}
"""Copied: many times what a cache holds."""


@dataclass(frozen=True)
class Roofline:
    """A device's measured peaks. flops: 2 per multiply-add."""

    flops_per_second: float
    bytes_per_second: float

    def least_ms(self, flops: float, num_bytes: float) -> float:
        """The least time for so much work over so many bytes: the longer of what either takes alone."""
        return 1000 * max(flops / self.flops_per_second, num_bytes / self.bytes_per_second)


def measure(device: torch.device, dtype: torch.dtype, *, clock: Clock | None = None) -> Roofline:
    """The peaks of a device in a number's type. Takes about a second on a CPU."""
    clock = clock or clock_for(device)
    side, num_bytes = _SIDE[device.type], _BYTES[device.type]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    source = torch.empty(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    product_ms = _best(lambda: torch.mm(left, right), clock)
    copy_ms = _best(lambda: target.copy_(source), clock)
    # A copy reads as many bytes as it writes.
    return Roofline(2 * side**3 / (product_ms / 1000), 2 * num_bytes / (copy_ms / 1000))


def _best(run: Callable[[], object], clock: Clock) -> float:
    run()
    times: list[float] = []
    for _ in range(TRIES):
        start = clock.mark()
        run()
        times.append(clock.elapsed_ms(start, clock.mark()))
    return min(times)
