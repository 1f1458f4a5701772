"""Standard output and standard error that never raise.

A reader may close its end of the pipe (`| head -1`), the disk may be full, the stream may have been closed before we
started (`>&-`), and its encoding may lack a sign such as `×`, which is then escaped. In each case the verb runs to its
end, so that its work is kept and its exit code is its own. A failure to write is kept in `Outputs.failure`.
"""

import io
import os
import select
import sys
from typing import Any, TextIO

OUTPUT, ERROR = 1, 2
"""The descriptors of standard output and standard error."""


class Descriptor(io.FileIO):
    """A descriptor that takes everything. Once a write has failed, it discards what follows.

    failure: why a write failed; None while none has. A reader that closed its pipe is no failure.
    """

    def __init__(self, descriptor: int):
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None
        self._discards = False

    def write(self, data: Any, /) -> int:
        """Write some of the data, or discard all of it. Returns the number of bytes taken."""
        size = memoryview(data).nbytes
        if self._discards:
            return size
        try:
            while (written := super().write(data)) is None:  # not ready: somebody made the stream non-blocking
                select.select([], [self], [])
            return written
        except BrokenPipeError:
            self._discards = True
        except OSError as error:
            self._discards, self.failure = True, error
        return size


class _Stream(io.TextIOWrapper):
    """A text stream that stays open. Foreign code may close `sys.stdout`, and we still print to it."""

    def close(self) -> None:
        """Write what is buffered."""
        self.flush()


class Outputs:
    """The two streams of this process, which replace `sys.stdout` and `sys.stderr`.

    failure: why standard output could not be written; None if all was written.
    """

    def __init__(self) -> None:
        closed = _open_missing()
        self._raw = Descriptor(OUTPUT)
        if OUTPUT in closed:
            self._raw.failure = OSError("it is closed; `> /dev/null` prints nothing")
        self._output = sys.stdout = _text(self._raw, sys.stdout)
        sys.stderr = _text(Descriptor(ERROR), sys.stderr)

    @property
    def failure(self) -> OSError | None:
        """Why standard output could not be written, after all that is buffered was written."""
        self._output.flush()
        return self._raw.failure


def _open_missing() -> list[int]:
    """Open the null device on each standard descriptor that is closed, and return those.

    Otherwise the next file that is opened would take the place of standard output.
    """
    missing = []
    for descriptor in (0, OUTPUT, ERROR):
        try:
            os.fstat(descriptor)
        except OSError:
            missing.append(descriptor)
            # It takes the lowest free number, which is this one. Processes that we start need it too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    return missing


def _text(raw: Descriptor, before: TextIO | None) -> TextIO:
    """A text stream on a descriptor, with the encoding of the stream that it replaces."""
    encoding = getattr(before, "encoding", None) or "utf-8"
    if before is not None:
        before.flush()
    return _Stream(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == ERROR,
    )
