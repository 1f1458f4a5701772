"""The preparation of a report and its texts for the renderers.

Names in a report may come from files of other people, so its texts get no control characters. A line ends neither
inside an interval nor between a number and its unit.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from textwrap import wrap
from typing import TypeVar, assert_never

from trio_profile.report.blocks import Block, Chart, Entry, Report, Sentences, Table, Terms, Tokens, Waterfall
from trio_profile.report.columns import without_empty_columns
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
    return without_empty_columns(block) if isinstance(block, Table) else block


@dataclass(frozen=True)
class Form:
    """The text around the blocks, in one form. `{}` stands for the text.

    escape: makes text that stays text. table: returns the lines of a table.
    items, terms: return the lines of a list, from texts that stay text.
    heading: of a block. strong: of the banner, and of the confidence.
    """

    escape: Callable[[str], str]
    table: Callable[[Table], list[str]]
    items: Callable[[Sequence[str]], list[str]]
    terms: Callable[[Sequence[tuple[str, str]]], list[str]]
    heading: str
    title: str
    section: str
    banner: str
    strong: str
    begin: Sequence[str] = ()


def drawn(block: Block, form: Form) -> list[str]:
    """The lines of one block."""
    escape = form.escape

    def under(heading: str, *texts: str) -> list[str]:
        lines = [form.heading.format(escape(heading)), ""] if heading else []
        return [*lines, *(line for text in texts if text for line in (escape(text), ""))]

    match block:
        case Sentences():
            return [*under(block.heading), *form.items([escape(line) for line in block.lines])]
        case Terms():
            return [*under(block.heading), *form.terms([(escape(term), escape(text)) for term, text in block.items])]
        case Table():
            return form.table(block)
        case Chart():
            return under(block.caption, block.label)
        case Waterfall():
            steps = (block.first, *block.steps, block.last)
            rows = [[Entry(step.name), Entry(step.text), Entry(step.exact)] for step in steps]
            return [*under(block.caption, block.label), *form.table(Table("", ("step", "adds", "exactly"), rows))]
        case Tokens():
            items = form.items([escape(drawn.text) for drawn in block.maps])
            return [*under(block.caption, block.label, block.note), *items]
    assert_never(block)


def whole_text(report: Report, form: Form) -> str:
    """The whole report, blocks with `detail=True` included. A figure is told by its label."""
    report, escape = prepare(report), form.escape
    lines = [*form.begin, form.title.format(escape(f"{report.subject} {report.preposition} {report.model}")), ""]
    lines += [escape(" · ".join(report.facts)), ""] if report.facts else []
    lines += [form.banner.format(escape(report.banner)), ""] if report.banner else []
    for sure in report.confidence:
        lines += [f"{form.strong.format(sure.title)}, because {escape(sure.why)}.", ""]
    for page in report.pages:
        lines += [form.section.format(escape(page.title)), ""]
        lines += [escape(page.how_to_read), ""] if page.how_to_read else []
        lines += [line for block in page.blocks for line in (*drawn(block, form), "")]
        lines += [] if page.blocks else [escape(page.empty), ""]
    return "\n".join(lines).rstrip() + "\n"


def tables_text(report: Report, form: Form) -> str:
    """The tables of a report alone, without headings."""
    blocks = (block for page in prepare(report).pages for block in page.blocks)
    lines = [line for block in blocks if isinstance(block, Table) for line in (*form.table(block), "")]
    return "\n".join([*form.begin, *lines]).rstrip() + "\n"


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
