"""The times of one generation, as `records.timing.Timed` explains them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel

from trio_core.models.adapter import Adapter
from trio_profile.inputs.towers import beside_the_decoder, is_projector
from trio_profile.profilers.clock import Clock, HostClock
from trio_profile.profilers.regions import Regions
from trio_profile.records.timing import Timed


def timed(model: PreTrainedModel, adapter: Adapter, generate: Callable[[], Any], clock: Clock) -> Timed:
    """Return the times of one call of `generate`, which is any function that generates with the model.

    host_ms is None if the clock is the host's. cpu_ms is None if it is not, because then a device works, and if the
    clock of the CPU time is too coarse.
    """
    marks: list[Any] = []
    host = None if isinstance(clock, HostClock) else HostClock()
    host_marks: list[int] = []
    cpu_ns: list[int] = []
    parts = Regions(clock.mark)

    def mark() -> None:
        marks.append(clock.mark())
        if host is None:
            cpu_ns.append(time.process_time_ns())
        else:
            host_marks.append(host.mark())

    def first_module(*_: Any) -> None:
        mark()
        before.remove()

    def first_forward(*_: Any) -> None:
        mark()
        after.remove()

    # The start is at the first module of any kind: `generate` may encode the pictures before it calls the model.
    # Both marks are outside all other hooks, so that pruning is inside the timed part.
    with (
        register_module_forward_pre_hook(first_module) as before,
        model.register_forward_hook(first_forward) as after,
        parts.watching(_parts(adapter)),
    ):
        start = clock.mark()
        generate()
        end = clock.mark()
    return Timed(
        prefill_ms=clock.elapsed_ms(*marks),
        ttft_ms=clock.elapsed_ms(start, marks[1]),
        total_ms=clock.elapsed_ms(start, end),
        host_ms=None if host is None else host.elapsed_ms(*host_marks),
        cpu_ms=None if host is not None else (cpu_ns[1] - cpu_ns[0]) / 1e6 or None,
        **{f"{part}_ms": time_ms for part, time_ms in parts.sums(clock.elapsed_ms).items()},
    )


def _parts(adapter: Adapter) -> Iterator[tuple[str, nn.Module]]:
    """The modules beside the decoder, each with the part of the prefill that it belongs to."""
    for path, module in beside_the_decoder(adapter):
        yield "projector" if is_projector(path) else "vision", module
