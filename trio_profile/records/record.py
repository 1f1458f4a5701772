"""The base class of every record and document, and the versions of the format that this reader understands.

docs/reference/format.md has the history of the format.
"""

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trio_profile.errors import StoreError

FORMAT = "trio-profile"
VERSION = "2.3"
"""Major and minor. A reader ignores the further fields of a newer minor version and refuses another major version."""

Version = str
"""A format version, such as `"2.0"`."""
ZeroOrMore = Annotated[int, Field(ge=0, lt=2**63)]
"""An exact number of things."""
OneOrMore = Annotated[int, Field(ge=1, lt=2**63)]
"""An exact number of things that cannot be 0."""
AboveZero = Annotated[float, Field(gt=0)]
"""A number that a logarithm or a quotient is made of."""


class Record(BaseModel):
    """An immutable record. It refuses unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first invalid field, with dots, and pydantic's message about it."""
    first = error.errors()[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Value error, ")


def is_newer_minor(version: Any) -> bool:
    """Return whether a file has a newer minor version than this reader: its further fields are then ignored.

    version: as it stands in the file.
    Raises StoreError if it is no version, or if its major version is another one.
    """
    numbers = isinstance(version, str) and re.fullmatch(r"\d{1,9}\.\d{1,9}", version, re.ASCII)
    if not numbers:
        raise StoreError(f"version {version!r:.40} is no format version such as {VERSION!r}")
    theirs, ours = (tuple(map(int, text.split("."))) for text in (numbers[0], VERSION))
    if theirs[0] > ours[0]:
        raise StoreError(f"format version {version} is newer than {VERSION}: upgrade trio-profile")
    if theirs[0] < ours[0]:
        raise StoreError(f"format version {version} is older than {VERSION}, and cannot be read: measure again")
    return theirs > ours
