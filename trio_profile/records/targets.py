"""Whether files can be written to a directory. This is asked before anything that takes long."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from trio_profile.errors import StoreError
from trio_profile.records.writing import cannot_write, require_regular

_SAMPLE = bytes(4096)


def require_writable(directory: Path, names: Iterable[str]) -> None:
    """Raise StoreError if a file cannot be written to an existing directory, or if a name is taken by something else.

    A sample is written and removed, because a permission does not tell whether a disk is full or read-only.

    names: of the files that will be written. A directory, a pipe or a device of such a name is refused.
    """
    for name in names:
        try:
            require_regular(directory / name)
        except StoreError as error:
            raise StoreError(f"{error}; move it, or choose another --out") from error
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".sample-") as file:
            file.write(_SAMPLE)
            file.flush()
    except OSError as error:
        raise cannot_write(directory, error, "choose another --out") from error
