"""Which versions of the format this reader understands. docs/reference/format.md has the history of the format."""

import re
from typing import Any

from trio_profile.errors import StoreError
from trio_profile.records.record import VERSION


def is_newer_minor(version: Any) -> bool:
    """Return whether a file has a newer minor version than this reader: its further fields are then ignored.

    version: as it stands in the file.
    Raises StoreError if it is no version, or if its major version is another one.
    """
    ours, theirs = _numbers(VERSION), _numbers(version)
    if theirs is None or ours is None:
        raise StoreError(f"version {_short(version)} is no format version such as {VERSION!r}")
    if theirs[0] > ours[0]:
        raise StoreError(f"format version {version} is newer than {VERSION}: upgrade trio-profile")
    if theirs[0] < ours[0]:
        raise StoreError(f"format version {version} is older than {VERSION}, and cannot be read: measure again")
    return theirs > ours


def _numbers(version: Any) -> tuple[int, int] | None:
    """Return the major and the minor number; None if it is no version."""
    if isinstance(version, bool) or not isinstance(version, int | str):
        return None
    found = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?", str(version), re.ASCII)
    return found and (int(found[1]), int(found[2] or 0))


def _short(value: Any) -> str:
    """Return how a value is written, cut off after 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
