"""Write files so that a full disk or a killed process leaves no half of one."""

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from trio_profile.errors import StoreError
from trio_profile.reading import kind_of_file

_SAMPLE = bytes(4096)
_UNFINISHED = re.compile(r"\..+\.(jsonl?|toml|html|txt)\.\d+")
"""The name of a file that `write_whole` has not finished."""


def require_regular(path: Path) -> None:
    """Raise StoreError if a path is there and is no regular file: a directory, a pipe, a device.

    Reading or writing a pipe would wait for ever.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if (kind := kind_of_file(mode)) is not None:
        raise StoreError(f"{path} is {kind}, not a regular file")


def cannot_write(path: Path, error: OSError, way_out: str = "choose another directory") -> StoreError:
    """Return the error for a file or a directory that cannot be written.

    way_out: what the user can do. On a full disk it is always to free some space.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        way_out = "free some space, then run the same command again"
    return StoreError(f"cannot write {path}: {error.strerror}; {way_out}")


def make_directory(directory: Path) -> bool:
    """Make a directory, if it is missing. Return whether it was made. Raises StoreError if it cannot be made."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir()
    except OSError as error:
        if directory.is_dir():
            return False
        raise StoreError(f"cannot make {directory}: {error.strerror}; choose another --out") from error
    return True


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file completely or not at all. Its directory is made if it is missing.

    content: a text is written as UTF-8.
    Raises StoreError if the file cannot be written.
    """
    require_regular(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")  # `_UNFINISHED` knows this form
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def remove_unfinished(directory: Path) -> None:
    """Remove what killed processes left of the files of a study. No other process may write them now."""
    with suppress(OSError):
        for path in directory.glob(".*"):
            if _UNFINISHED.fullmatch(path.name):
                path.unlink(missing_ok=True)


def append_line(path: Path, line: bytes) -> None:
    """Append one line to a file, and wait until it is on the disk. A line that does not fit is taken back.

    line: without the newline. A last line that was cut off is ended first.
    Raises OSError if the file is missing or cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        ended = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
        try:
            _write_all(file, line + b"\n" if ended else b"\n" + line + b"\n")
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                file.truncate(size)
            raise


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes to an unbuffered file, which may take only a part at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def require_writable(directory: Path, names: Iterable[str]) -> None:
    """Raise StoreError if a file cannot be written to an existing directory, or if a name is taken by something else.

    Call it before anything that takes long. A sample is written and removed, because a permission does not tell whether
    a disk is full or read-only.

    names: of the files that will be written. A directory, a pipe or a device of such a name is refused.
    """
    for name in names:
        try:
            require_regular(directory / name)
        except StoreError as error:
            raise StoreError(f"{error}; move it, or choose another --out") from error
    try:
        with tempfile.TemporaryFile(dir=directory) as file:  # it has no name, so a killed process leaves none
            file.write(_SAMPLE)
            file.flush()
    except OSError as error:
        raise cannot_write(directory, error, "choose another --out") from error
