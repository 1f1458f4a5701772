"""The fields of a claims file, each read as what it must be: whatever it is not is refused with its line and name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from trio_profile.audit.printed import Printed
from trio_profile.audit.quantities import Quantity, quantity
from trio_profile.audit.source import Path_, Source
from trio_profile.records.schema import Record

_Kind = TypeVar("_Kind", bound=Record)


@dataclass(frozen=True)
class Fields:
    """A parsed file. Every method takes the place of a value, for its complaint, and the value."""

    source: Source

    def retention(self, path: Path_, fields: Mapping[str, Any]) -> str | None:
        """The share that `retention` or `retention_pct` of some fields states, as a share's text; None for neither."""
        share, percent = fields.get("retention"), fields.get("retention_pct")
        if share is not None and percent is not None:
            self.source.refuse((*path, "retention_pct"), "retention stands there too; give one")
        at = (*path, "retention" if percent is None else "retention_pct")
        if share is None and percent is None:
            return None
        text = self.digits(at, percent if share is None else share)
        value = of_percent(text) if share is None else text
        if Printed.of(value).value > 1:
            self.source.refuse(at, f"{text} is more than all; a share lies in (0, 1], retention_pct in (0, 100]")
        return value

    def break_even(self, path: Path_, body: Any) -> tuple[str, str] | None:
        """Two retentions, the lesser first."""
        if body is None:
            return None
        ends = [self.retention(path, {"retention": self.digits(path, end)}) or "" for end in self.items(path, body)]
        if len(ends) != 2 or Printed.of(ends[0]).value > Printed.of(ends[1]).value:
            self.source.refuse(path, "takes the two retentions between which it is said to lie, the lesser first")
        return ends[0], ends[1]

    def figure(self, path: Path_, name: str, value: Any) -> str:
        """A printed figure of a quantity, within what can be."""
        meant = self.quantity_of(path, name)
        text = self.digits(path, value)
        number = Printed.of(text).value
        if meant.form in ("reduction", "share") and number > (100 if meant.form == "reduction" else 10_000):
            self.source.refuse(path, f"{text} % cannot be")
        if meant.form in ("ratio", "plain") and number > 10**6:
            self.source.refuse(path, f"{text} cannot be")
        if meant.form == "amount" and number * meant.scale > 10**24:
            self.source.refuse(path, f"{text} {meant.unit} cannot be")
        return text

    def quantity_of(self, path: Path_, name: Any, more: str = "") -> Quantity:
        """What a name means. more: said after the complaint, if it means nothing."""
        try:
            return quantity(str(name))
        except ValueError as error:
            self.source.refuse(path, f"{error}{more}")

    def is_quantity(self, name: str) -> bool:
        """Whether a name means a quantity, or is a slip of one's unit, and not the name of a method."""
        """What a name means. more: said after the complaint, if it means nothing."""
        try:
            quantity(name)
        except ValueError:
            base = name.rpartition("_")[0]
            return base != "" and _is_base(base)
        return True

    def is_series(self, key: str) -> bool:
        """Whether a name is that of a quantity by retention, or of the dense model beside one."""
        return self.is_quantity(key.removeprefix("baseline_"))

    def digits(self, path: Path_, value: Any) -> str:
        """A number above 0, as its text."""
        if not isinstance(value, str):
            self.source.refuse(path, "needs a number")
        try:
            above = Printed.of(value).value > 0
        except ValueError as error:
            self.source.refuse(path, str(error))
        if not above:
            self.source.refuse(path, f"{value} is not above 0")
        return value

    def whole(self, path: Path_, value: Any) -> int:
        """A whole number."""
        if not isinstance(value, str) or not re.fullmatch(r"\d{1,7}", value, re.ASCII):
            self.source.refuse(path, f"{value!r} is no whole number up to seven digits")
        return int(value)

    def text(self, path: Path_, value: Any) -> str:
        """A text."""
        if not isinstance(value, str):
            self.source.refuse(path, "needs a text")
        return value

    def items(self, path: Path_, value: Any) -> list[Any]:
        """A list; nothing for None."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.source.refuse(path, "needs a list, [ … ]")
        return value

    def mapping(self, path: Path_, value: Any) -> dict[str, Any]:
        """Fields with values."""
        if not isinstance(value, dict):
            self.source.refuse(path, "needs fields with values, name: value")
        return value

    def optional(self, path: Path_, value: Any, read: Callable[[Path_, Any], Any]) -> Any:
        """A value read, or None for None."""
        return None if value is None else read(path, value)

    def known(self, path: Path_, fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Refuse a field that is none of the names, with the nearest."""
        for key in fields:
            if key not in names:
                near = get_close_matches(key, names, n=1)
                meant = f"; perhaps {near[0]}" if near else f"; known are {', '.join(names)}"
                self.source.refuse((*path, key), f"no known field{meant}")

    def record(self, path: Path_, kind: type[_Kind], fields: Mapping[str, Any]) -> _Kind:
        """A record of the fields."""
        self.known(path, fields, tuple(kind.model_fields))
        try:
            return kind.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            at = (*path, *first["loc"])
            self.source.refuse(at, first["msg"].removeprefix("Value error, ").removeprefix("Input should be ").lower())


def _is_base(base: str) -> bool:
    try:
        quantity(f"{base}_ratio")
    except ValueError:
        return False
    return True


def of_percent(text: str) -> str:
    """`11.1` percent as a share with the same digits: `0.111`."""
    return f"{Decimal(text).scaleb(-2):f}"
