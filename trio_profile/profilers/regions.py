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
    closed: name, first mark and last mark of each region, in the order in which they ended. A name is any
        hashable value.
    """

    def __init__(self, mark: Callable[[], Any]):
        self.mark = mark
        self.closed: list[tuple[Any, Any, Any]] = []
        self._open: dict[Any, Any] = {}
        self._selecting = False

    @contextmanager
    def watching(
        self, modules: Iterable[tuple[Any, nn.Module]], outermost: Iterable[tuple[Any, nn.Module]] = ()
    ) -> Iterator[None]:
        """Mark the regions of what runs in this context.

        modules: each with the name of its region, which begins after the other hooks of the module.
        outermost: the same, but a region begins before all other hooks.
        """
        with ExitStack() as stack, listening(self._span):
            for is_outermost, group in ((False, modules), (True, outermost)):
                for name, module in group:
                    enter, leave = (partial(self._at_module, name, entering) for entering in (True, False))
                    stack.enter_context(module.register_forward_pre_hook(enter, prepend=is_outermost))
                    stack.enter_context(module.register_forward_hook(leave))
            yield

    def sums(self, between: Callable[[Any, Any], Any]) -> dict[str, Any]:
        """Return what lies between the marks of each region, summed over its runs."""
        sums: dict[str, Any] = {}
        for name, start, end in self.closed:
            sums[name] = sums.get(name, 0) + between(start, end)
        return sums

    def _at_module(self, name: Any, entering: bool, *_: Any) -> None:
        if not self._selecting:
            self._begin_or_end(name, entering)

    def _span(self, name: str, entering: bool) -> None:
        if name == SELECTION:
            self._begin_or_end(name, entering)
            self._selecting = entering

    def _begin_or_end(self, name: Any, entering: bool) -> None:
        """Mark the beginning of a region, or its end."""
        if entering:
            self._open[name] = self.mark()
        else:
            self.closed.append((name, self._open.pop(name), self.mark()))
