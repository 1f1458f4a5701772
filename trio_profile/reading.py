"""Read and parse files that somebody else may have written.

Each fault is one of two errors, so that callers need to catch nothing else: OSError for a file that cannot be read,
ValueError for a text that cannot be parsed.
"""

import errno
import json
import math
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 512 * 1024 * 1024
"""The largest file that is read. A large store has some megabytes."""
DEEPEST = 64
"""The deepest nesting of a JSON or TOML text."""
LARGEST_INTEGER = 2**63 - 1
LARGEST = 1e100
"""No number of ours is larger, or closer to 0 than 1 / LARGEST. So products and quotients stay finite."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. The end of a pipe or of a device might never come, so these are refused.

    Raises OSError if the file cannot be opened, or if it is no regular file.
    """
    try:
        # O_NONBLOCK: opening a pipe does not wait for its writer. It has no effect on a regular file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from error
    try:
        if (kind := kind_of_file(os.fstat(descriptor).st_mode)) is not None:
            raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def is_regular(path: Path) -> bool:
    """Whether there is a regular file of this name. False also for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError if it cannot be read, or if it has more than `most` bytes."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
        return file.read()


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file, without a byte order mark.

    Raises OSError as `read_bytes` does, ValueError if the file is not UTF-8.
    """
    return decode_utf8(read_bytes(path, most))


def decode_utf8(raw: bytes) -> str:
    """Bytes as UTF-8 text, without a byte order mark. Raises ValueError with the first wrong byte."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error


def parse_json(text: str | bytes, *, unique: bool = False) -> Any:
    """The value of a JSON text.

    unique: refuse an object that has a name twice. People write this by mistake, and readers differ in which value
        they take.
    Raises ValueError if it is not JSON, nests deeper than DEEPEST, or holds NaN, Infinity, an integer beyond 64 bits,
    another number beyond LARGEST, or half a character.
    """
    read = partial(json.loads, parse_constant=_refuse, object_pairs_hook=_unique if unique else None)
    return _parsed(read, decode_utf8(text) if isinstance(text, bytes) else text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError as `parse_json` does."""
    return _parsed(tomllib.loads, text)


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        tree = parse(text)
        _require_plain(tree)
    except RecursionError as error:
        raise ValueError(f"it nests deeper than {DEEPEST}") from error
    return tree


def kind_of_file(mode: int) -> str | None:
    """The kind of a file of this mode, such as `a pipe`; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _refuse(constant: str) -> float:
    raise ValueError(f"it contains {constant}, which is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError if it has a name twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"it contains {name!r:.80} twice in one object")
    return fields


def _require_plain(tree: Any) -> None:
    """Raise ValueError for deep nesting, a number out of range, and a text that UTF-8 cannot write."""
    level, depth = [tree], 0
    while level:
        below: list[Any] = []
        for value in level:
            if depth == DEEPEST and isinstance(value, dict | list):
                raise ValueError(f"it nests deeper than {DEEPEST}")
            if isinstance(value, dict):
                below += value.keys()
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise ValueError(f"it contains an integer of {value.bit_length()} bits; at most 63 can be read")
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"it contains {value}, which is not finite")
            elif isinstance(value, float) and value and not 1 / LARGEST <= abs(value) <= LARGEST:
                raise ValueError(f"it contains {value:g}; numbers from {1 / LARGEST:g} to {LARGEST:g} can be read")
            elif isinstance(value, str) and not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError as error:  # JSON can escape half a character, and no file can hold it
                    raise ValueError(f"it contains half a character, {value[error.start]!a}") from error
        level, depth = below, depth + 1
