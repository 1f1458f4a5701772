"""The preparation of a report and its texts for the renderers.

Names in a report may come from files of other people, so its texts get no control characters. A line ends neither
inside an interval nor between a number and its unit.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trio_profile.report import columns
from trio_profile.report.blocks import Block, Entry, Report, Table, Waterfall
from trio_profile.text import printable

_NO_BREAK = "\N{NO-BREAK SPACE}"
_INTERVAL = re.compile(r"\[[\d., +−]+\]")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[KMGT]iB|ms\b|\[)")
_Part = TypeVar("_Part")


def prepare(report: Report) -> Report:
    """The report with printable texts, and with tables that have no empty column."""
    report = clean_report(report)
    return replace(report, pages=[replace(page, blocks=[*map(_filled, page.blocks)]) for page in report.pages])


def _filled(block: Block) -> Block:
    return columns.without_empty_columns(block) if isinstance(block, Table) else block


def text_of(report: Report, form: str, escape: Callable[[str], str], *, only_tables: bool = False) -> str:
    """The report as text, blocks with `detail=True` included. A figure is told by its label.

    form: the name of its template: markdown or latex.
    escape: makes text that stays text.
    only_tables: leave out all but the tables: what a paper inputs.
    """
    environment = Environment(
        *("<%", "%>", "<<", ">>", "<#", "#>"),  # LaTeX has many braces
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    of_tables = (columns.doubted, columns.first_columns, columns.has_others, columns.other_columns, columns.with_note)
    environment.filters |= {function.__name__: function for function in (*of_tables, steps)}
    template = environment.get_template("text.jinja")
    text = template.render(report=prepare(report), template=f"{form}.jinja", only_tables=only_tables)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def steps(block: Waterfall) -> Table:
    """The steps of a waterfall as a table."""
    rows = [[Entry(step.name), Entry(step.text), Entry(step.exact)] for step in (block.first, *block.steps, block.last)]
    return Table("", ("step", "adds", "exactly"), rows)


def unbroken(text: str) -> str:
    """The same text with no-break spaces where no line may end."""
    return _BEFORE_UNIT.sub(_NO_BREAK, _INTERVAL.sub(lambda match: match[0].replace(" ", _NO_BREAK), text))


def lines(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns."""
    wrapped = wrap(unbroken(text), max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in wrapped] or [""]


def clean_report(report: Report) -> Report:
    """The report with printable texts. Each renderer draws this one.

    `data` stays as it is, because it is JSON with escapes of its own.
    """
    return replace(_cleaned(replace(report, data="")), data=report.data)


def _cleaned(part: _Part) -> _Part:
    """A part of a report with printable texts: a block, a sequence or a text. Numbers stay.

    A part that is clean is returned as it is: a large table has some ten thousand of them.
    """
    if isinstance(part, str):
        clean = printable(part)
        return part if clean == part else clean  # pyright: ignore[reportReturnType]
    if isinstance(part, tuple | list):
        cleaned = [_cleaned(item) for item in part]
        same = all(new is old for new, old in zip(cleaned, part, strict=True))
        return part if same else type(part)(cleaned)  # pyright: ignore[reportReturnType]
    if is_dataclass(part) and not isinstance(part, type):
        values = ((name, getattr(part, name)) for name in _names_of(type(part)))
        changed = {name: new for name, old in values if (new := _cleaned(old)) is not old}
        return replace(part, **changed) if changed else part
    return part


@cache
def _names_of(block: type) -> tuple[str, ...]:
    """The names of the fields of a class of blocks."""
    return tuple(field.name for field in fields(block))
