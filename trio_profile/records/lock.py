"""The lock of a study's directory: one process at a time writes to it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from trio_profile.errors import StoreError
from trio_profile.reading import read_bytes
from trio_profile.records.writing import cannot_write, remove_unfinished, write_whole
from trio_profile.text import one_line

LOCK = ".lock"
"""The file that is locked. It stays, because another process may have opened it already."""
HOLDER = ".lock.txt"
"""Who holds the lock."""
_DESCRIPTORS: list[int] = []


class LockedError(StoreError):
    """Another process has locked a file."""


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes, and remove what killed ones left of files that they were writing.

    Raises LockedError, naming the process that has locked it, and StoreError if it cannot be locked.
    """
    try:
        descriptor = _lock(directory / LOCK)
    except BlockingIOError as error:
        raise LockedError(
            f"another process is writing to {directory}{_named(directory)}: wait for it to end"
        ) from error
    except OSError as error:
        raise cannot_write(directory, error) from error
    _DESCRIPTORS.append(descriptor)
    try:
        remove_unfinished(directory)
        now = datetime.now(UTC)
        write_whole(
            directory / HOLDER, f"process {os.getpid()} on {socket.gethostname()}, since {now:%Y-%m-%d %H:%M:%S %Z}"
        )
        yield
    finally:
        with suppress(OSError):
            (directory / HOLDER).unlink(missing_ok=True)
        _DESCRIPTORS.remove(descriptor)
        os.close(descriptor)


def lock_descriptors() -> tuple[int, ...]:
    """Return the descriptors of the locks of this process.

    A child process that inherits them holds the locks too. So a directory stays locked until both have ended.
    """
    return tuple(_DESCRIPTORS)


def _lock(path: Path) -> int:
    """Return the descriptor of a file that is now locked. Raises BlockingIOError if another process has locked it."""
    import fcntl  # not on Windows, where a study can be read

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Another process removed the file after we had opened it.
        os.close(descriptor)


def _named(directory: Path) -> str:
    """Return the holder of a lock in brackets; empty if it has not said who it is."""
    try:
        return f" ({one_line(read_bytes(directory / HOLDER).decode(errors='replace'))})"
    except OSError:
        return ""
