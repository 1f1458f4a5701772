"""A report without control characters. Names in it may come from files of other people."""

from dataclasses import fields, is_dataclass, replace
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
    """A part of a report with printable texts: a block, a sequence or a text. Numbers stay."""
    found: Any = part
    if isinstance(part, str):
        found = printable(part)
    elif isinstance(part, tuple | list):
        found = type(part)(_cleaned(one) for one in part)
    elif is_dataclass(part) and not isinstance(part, type):
        changed = {field.name: _cleaned(getattr(part, field.name)) for field in fields(part)}
        found = replace(part, **changed)
    return found
