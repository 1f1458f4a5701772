"""Where parts of a prefill begin and end: modules, and the selections of a method."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn

from trio_core.spans import listening

SELECTION = "selection"
"""The region of all selections."""


class Regions:
    """Marks the beginning and the end of regions. Modules that a selection calls belong to the selection.

    mark: returns what stands for a moment: a time, an event, or the work so far.
    closed: name, first mark and last mark of each region, in the order in which they ended.
    """

    def __init__(self, mark: Callable[[], Any]):
        self.mark = mark
        self.closed: list[tuple[str, Any, Any]] = []
        self._open: dict[str, Any] = {}
        self._selecting = False

    @contextmanager
    def watching(self, modules: Iterable[tuple[str, nn.Module]]) -> Iterator[None]:
        """Mark the regions of what runs in this context. modules: each with the name of its region."""
        with ExitStack() as stack:
            for name, module in modules:
                stack.callback(module.register_forward_pre_hook(partial(self._enter, name)).remove)
                stack.callback(module.register_forward_hook(partial(self._leave, name)).remove)
            stack.enter_context(listening(self._span))
            yield

    def sums(self, between: Callable[[Any, Any], Any]) -> dict[str, Any]:
        """Return what lies between the marks of each region, summed over its runs."""
        sums: dict[str, Any] = {}
        for name, start, end in self.closed:
            sums[name] = sums.get(name, 0) + between(start, end)
        return sums

    def _enter(self, name: str, *_: Any) -> None:
        if not self._selecting:
            self._open[name] = self.mark()

    def _leave(self, name: str, *_: Any) -> None:
        if not self._selecting:
            self.closed.append((name, self._open.pop(name), self.mark()))

    def _span(self, name: str, entering: bool) -> None:
        if name == SELECTION:
            self._selecting = False
            (self._enter if entering else self._leave)(name)
            self._selecting = entering
