"""The base class of every record and document."""

from pydantic import BaseModel, ConfigDict

FORMAT = "trio-profile"
VERSION = 1


class Record(BaseModel):
    """An immutable record. It refuses unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
