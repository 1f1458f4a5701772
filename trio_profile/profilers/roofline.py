"""The most that a device can do: FLOPs and bytes per second, measured and not read from a datasheet.

A prefill's share of the FLOPs is its MFU. The share of the bytes that reading every weight once takes is its MBU. Each
bound is the best of several tries.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trio_profile.profilers.clock import Clock, clock_for

TRIES = 5
_SIDE = {"cuda": 8192, "cpu": 1536}
"""The side of the square matrices, so large that only the product takes time."""
_BYTES = {"cuda": 2**30, "cpu": 2**27}
"""The bytes that are copied, many times the size of a cache."""


@dataclass(frozen=True)
class Roofline:
    """A device's measured peaks. A multiply-add is 2 FLOPs."""

    flops_per_second: float
    bytes_per_second: float

    def least_ms(self, flops: float, num_bytes: float) -> float:
        """The shortest possible time for some work and some memory traffic: the longer of the two alone."""
        return 1000 * max(flops / self.flops_per_second, num_bytes / self.bytes_per_second)


def measure(device: torch.device, dtype: torch.dtype, *, clock: Clock | None = None) -> Roofline:
    """Measure the peaks of a device for one dtype. It takes about a second on a CPU."""
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
