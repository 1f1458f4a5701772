"""Named regions that a profiler can listen to; next to nothing when nobody does.

A listener is called as `listener(name, entering)` on the thread that runs the model. It may read clocks or counters,
and must not touch tensors. The names in use: `selection` (one stage's whole choice), inside it `proxy_forward`,
`proxy_loss`, `backward` and `nms`; and `compaction` (the dropped tokens leave).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, bool], None]

_listeners: list[Listener] = []


@contextmanager
def span(name: str) -> Iterator[None]:
    """Mark a region of the forward pass for whoever listens."""
    if not _listeners:
        yield
        return
    heard = tuple(_listeners)
    for listener in heard:
        listener(name, True)
    try:
        yield
    finally:
        for listener in reversed(heard):
            listener(name, False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener(name, entering)` at each span's beginning and end while the context is open."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
