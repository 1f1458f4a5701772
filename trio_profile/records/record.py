"""The base class of every record and document."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT = "trio-profile"
VERSION = "2.0"
"""Major and minor. A reader ignores the further fields of a newer minor version and refuses a newer major version."""

Version = str
"""A format version, such as `"2.0"`."""
ZeroOrMore = Annotated[int, Field(ge=0, lt=2**63)]
"""An exact number of things."""
OneOrMore = Annotated[int, Field(ge=1, lt=2**63)]
"""An exact number of things that cannot be 0."""


class Record(BaseModel):
    """An immutable record. It refuses unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first invalid field, with dots, and pydantic's message about it."""
    first = error.errors()[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Value error, ")
