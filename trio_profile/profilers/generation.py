"""The times of one generation: its prefill, its first token, the whole, and the prefill's parts.

prefill_ms: from the first module that runs (in the vision tower) to the end of the model's first forward, the selection
    of tokens included.
total_ms: the whole of `generate` for a fixed number of new tokens.
ttft_ms: from the call of `generate` to the end of the first forward.
vision_ms, projector_ms, selection_ms: parts of the prefill.
cpu_ms: the CPU time of the process during the prefill, all threads together.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel

from trio_core.models.adapter import Adapter
from trio_core.spans import listening
from trio_profile.inputs.towers import beside_the_decoder, is_projector
from trio_profile.profilers.clock import Clock, HostClock


@dataclass(frozen=True)
class Times:
    """The times of one generation.

    host_ms: its prefill by the host's clock; None if the clock is the host's.
    cpu_ms: CPU time of the process during the prefill; None if the clock is not the host's, so that a device works, or
        if the clock of the CPU time is too coarse.
    parts: milliseconds of the prefill's parts that ran: `vision`, `projector`, `selection`.
    """

    prefill_ms: float
    ttft_ms: float
    total_ms: float
    host_ms: float | None = None
    cpu_ms: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


def timed(model: PreTrainedModel, adapter: Adapter, generate: Callable[[], Any], clock: Clock) -> Times:
    """The times of one call of `generate`.

    generate: any function that generates with the model.
    """
    prepared: list[Any] = []
    marks: list[Any] = []
    host = None if isinstance(clock, HostClock) else HostClock()
    host_marks: list[int] = []
    cpu_ns: list[int] = []

    def mark() -> None:
        marks.append(clock.mark())
        if host is None:
            cpu_ns.append(time.process_time_ns())
        else:
            host_marks.append(host.mark())

    def first_module(*_: Any) -> None:
        # `generate` itself waits for the device before it gets here, so the clock is prepared here.
        prepared.append(clock.mark())
        clock.prepare()
        mark()
        before.remove()

    def first_forward(*_: Any) -> None:
        mark()
        after.remove()

    # The start is at the first module of any kind: `generate` may encode the pictures before it calls the model.
    # Both marks are outside all other hooks, so that pruning is inside the timed part.
    before = register_module_forward_pre_hook(first_module)
    after = model.register_forward_hook(first_forward)
    try:
        with _parts(adapter, clock) as parts:
            start = clock.mark()
            generate()
            end = clock.mark()
    finally:
        before.remove()
        after.remove()
    preparing_ms = clock.elapsed_ms(prepared[0], marks[0])
    return Times(
        prefill_ms=clock.elapsed_ms(*marks),
        ttft_ms=clock.elapsed_ms(start, marks[1]) - preparing_ms,
        total_ms=clock.elapsed_ms(start, end) - preparing_ms,
        host_ms=None if host is None else host.elapsed_ms(*host_marks),
        cpu_ms=None if host is not None else (cpu_ns[1] - cpu_ns[0]) / 1e6 or None,
        parts=parts.milliseconds(),
    )


class _Parts:
    """Marks parts of the prefill. Modules that a selection calls belong to the selection."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.selecting = False
        self.open: dict[str, Any] = {}
        self.closed: list[tuple[str, Any, Any]] = []

    def enter(self, name: str, *_: Any) -> None:
        if not self.selecting:
            self.open[name] = self.clock.mark()

    def leave(self, name: str, *_: Any) -> None:
        if not self.selecting:
            self.closed.append((name, self.open.pop(name), self.clock.mark()))

    def span(self, name: str, entering: bool) -> None:
        if name != "selection":
            return
        if entering:
            self.enter(name)
        self.selecting = entering
        if not entering:
            self.leave(name)

    def milliseconds(self) -> dict[str, float]:
        """Milliseconds by part, summed over several runs of one part."""
        spent: dict[str, float] = {}
        for name, start, end in self.closed:
            spent[name] = spent.get(name, 0.0) + self.clock.elapsed_ms(start, end)
        return spent


@contextmanager
def _parts(adapter: Adapter, clock: Clock) -> Iterator[_Parts]:
    parts, handles = _Parts(clock), list[Any]()
    try:
        for path, module in beside_the_decoder(adapter):
            name = "projector" if is_projector(path) else "vision"
            handles.append(module.register_forward_pre_hook(partial(parts.enter, name)))
            handles.append(module.register_forward_hook(partial(parts.leave, name)))
        with listening(parts.span):
            yield parts
    finally:
        for handle in handles:
            handle.remove()
