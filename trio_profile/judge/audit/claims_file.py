"""What may stand in a claims file, as pydantic models: the whole file, a table's fields, a row's fields.

`reader` turns these into the records of `claims`.
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from trio_profile.judge.audit.claims import BYTES_BY_DTYPE, Count, Digits, Share, Text, positive, share
from trio_profile.judge.audit.printed import Printed
from trio_profile.judge.audit.quantities import quantity
from trio_profile.cost.conventions import find
from trio_profile.records.schema import Record

_MOST_PERCENT = {"reduction": 100, "share": 10_000}
_MOST_NUMBER, _MOST_AMOUNT = 10**6, 10**24


def of_percent(text: str) -> str:
    """A percentage as a share with the same digits: `11.1` becomes `0.111`."""
    return f"{Decimal(text).scaleb(-2):f}"


def figure(name: str, text: Any) -> str:
    """The text of a printed figure, checked. Raises ValueError if the name or the number cannot be right."""
    meant = quantity(name)
    number = Printed.of(positive(text)).value
    if meant.form in _MOST_PERCENT and number > _MOST_PERCENT[meant.form]:
        raise ValueError(f"{text} % cannot be")
    if meant.form in ("ratio", "plain") and number > _MOST_NUMBER:
        raise ValueError(f"{text} cannot be")
    if meant.form == "amount" and number * meant.scale > _MOST_AMOUNT:
        raise ValueError(f"{text} {meant.unit} cannot be")
    return text


def is_quantity(name: str) -> bool:
    """Whether a name is that of a quantity, perhaps with a wrong unit. The other names are those of methods."""
    base = name.rpartition("_")[0]
    return _known(name) or (base != "" and _known(f"{base}_ratio"))


def _known(name: str) -> bool:
    try:
        quantity(name)
    except ValueError:
        return False
    return True


def _ascending_pair(ends: Any) -> Any:
    """Two shares, the lower one first."""
    if (
        not isinstance(ends, list)
        or len(ends) != 2
        or Printed.of(share(ends[0])).value > Printed.of(share(ends[1])).value
    ):
        raise ValueError("takes two retentions, the lower one first")
    return ends


class _File(Record):
    """A part of the file. An empty value counts as absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, fields: Any) -> Any:
        return (
            {key: value for key, value in fields.items() if value is not None} if isinstance(fields, dict) else fields
        )


class ClaimsFile(_File):
    """The whole file."""

    paper: Text
    source: Text | None = None
    models: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    method: dict[str, Any] = Field(default_factory=dict)
    tables: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


class _Stated(_File):
    """What a table states for its rows, or a row for itself.

    retention, retention_pct: the share of the visual tokens that is kept, averaged over layers.
    tokens: the average number of visual tokens, as printed.
    text_tokens: of the prompt.
    """

    model: Text | None = None
    retention: Share | None = None
    retention_pct: Digits | None = None
    tokens: Digits | None = None
    text_tokens: Annotated[int, Field(ge=0, le=10**7)] | None = None
    note: Any = None

    @field_validator("retention_pct")
    @classmethod
    def _one_retention(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is not None and info.data.get("retention") is not None:
            raise ValueError("retention is given too; give only one of them")
        if text is not None:
            share(of_percent(text))
        return text

    @property
    def share(self) -> str | None:
        """The stated retention as a share; None if none is stated."""
        return of_percent(self.retention_pct) if self.retention_pct is not None else self.retention


class TableFields(_Stated):
    """A table's own fields, without its series of figures. docs/how-to/claims.md explains each."""

    where: str | None = None
    dataset: str | None = None
    device: str | None = None
    samples: Count | None = None
    dtype: str = "float16"
    convention: str | None = None
    quantity: str | None = None
    baseline: Text | None = None
    benchmarks: tuple[Text, ...] = ()
    rows: dict[str, Any] | None = None
    claims: dict[str, Any] | None = None
    passage: Text | None = None

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, name: str) -> str:
        if name not in BYTES_BY_DTYPE:
            raise ValueError(f"{name!r} is none of {', '.join(BYTES_BY_DTYPE)}")
        return name

    @field_validator("convention")
    @classmethod
    def _known_convention(cls, code: str | None) -> str | None:
        if code is not None:
            find(code)
        return code

    @field_validator("quantity")
    @classmethod
    def _known_quantity(cls, name: str | None) -> str | None:
        if name is not None:
            quantity(name)
        return name


class RowFields(_Stated):
    """A row's own fields, without its figures and its schedule. docs/how-to/claims.md explains each."""

    method: Text | None = None
    overhead: Literal["true", "false"] | None = None
    printed: dict[str, Any] = Field(default_factory=dict)
    scores: tuple[Digits, ...] = ()
    break_even: Annotated[tuple[Share, Share], BeforeValidator(_ascending_pair)] | None = None
