"""Named regions of the forward pass that a profiler can listen to. They cost next to nothing without a listener.

A listener is called as `listener(name, entering)` on the thread that runs the model. It may read clocks and counters.
It must not touch tensors.

The names in use:
    selection: all that one stage does to choose its tokens
    proxy_forward, proxy_loss, backward, nms: the parts of TRIO's selection
    compaction: the dropped tokens leave the sequence
    order check: are the kept indices in order? It is no part of pruning
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, bool], None]
"""(name of the region, whether it begins) → None."""

ORDER_CHECK = "order check"

_listeners: list[Listener] = []


@contextmanager
def span(name: str) -> Iterator[None]:
    """Tell the listeners that the region `name` begins and ends. The end is told in reverse order."""
    if not _listeners:
        yield
        return
    listeners = tuple(_listeners)
    for listener in listeners:
        listener(name, True)
    try:
        yield
    finally:
        for listener in reversed(listeners):
            listener(name, False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener(name, entering)` where a region begins and where it ends, while the context is open."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
