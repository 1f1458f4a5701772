"""A report without control characters. Names in it may come from files of other people."""

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

from trio_profile.findings.blocks import Report
from trio_profile.text import printable

_Part = TypeVar("_Part")


def clean_report(report: Report) -> Report:
    """The report with printable texts. Each renderer draws this one.

    `data` stays as it is, because it is JSON with escapes of its own.
    """
    return replace(_cleaned(replace(report, data="")), data=report.data)


def _cleaned(part: _Part) -> _Part:
    """A part of a report with printable texts: a block, a sequence or a text. Numbers stay.

    A part that is clean is returned as it is: a large table has some ten thousand of them.
    """
    found: Any = part
    if isinstance(part, float):  # most parts of a chart
        return part
    if isinstance(part, str):
        clean = printable(part)
        found = part if clean == part else clean
    elif isinstance(part, tuple | list):
        cleaned = [_cleaned(one) for one in part]
        if any(new is not old for new, old in zip(cleaned, part, strict=True)):
            found = type(part)(cleaned)
    elif is_dataclass(part) and not isinstance(part, type):
        values = ((name, getattr(part, name)) for name in _names_of(type(part)))
        changed = {name: new for name, old in values if (new := _cleaned(old)) is not old}
        found = replace(part, **changed) if changed else part
    return found


@cache
def _names_of(block: type) -> tuple[str, ...]:
    """The names of the fields of a class of blocks."""
    return tuple(field.name for field in fields(block))
