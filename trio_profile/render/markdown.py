"""A report as Markdown, for an issue or a pull request."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from trio_profile.findings.blocks import Block, Chart, Entry, Report, Sentences, Table, Terms, Tokens, Waterfall
from trio_profile.render.columns import MARK, doubted
from trio_profile.render.preparing import Form, tables_text, whole_text

_SPECIAL = "\\|`*_[]!#~$"


def markdown(report: Report) -> str:
    """The whole report as Markdown."""
    return whole_text(report, _FORM)


def tables(report: Report) -> str:
    """The tables of a report alone, without headings."""
    return tables_text(report, _FORM)


def drawn(block: Block) -> list[str]:
    """The lines of one block."""
    match block:
        case Sentences():
            return [*_heading(block.heading), *(f"- {_plain(line)}" for line in block.lines)]
        case Terms():
            return [*_heading(block.heading), *(f"- **{_plain(term)}**: {_plain(text)}" for term, text in block.items)]
        case Table():
            return _table(block)
        case Chart():
            return [*_heading(block.caption), _plain(block.label)]
        case Waterfall():
            return _waterfall(block)
        case Tokens():
            told = [_plain(text) for text in (block.label, block.note) if text]
            return [*_heading(block.caption), *told, "", *(f"- {_plain(one.text)}" for one in block.maps)]
    assert_never(block)


def _heading(text: str) -> list[str]:
    return [f"**{_plain(text)}**", ""] if text else []


def _table(block: Table) -> list[str]:
    groups = [text for text, span in block.groups for _ in range(span)]
    groups += [""] * (len(block.columns) - len(groups))
    names = [": ".join(part for part in pair if part) for pair in zip(groups, block.columns, strict=True)]
    rows = ([field for entry in row for field in _fields(entry)] for row in block.rows)
    doubts = doubted(block)
    return [*_heading(block.caption), *_grid(names, rows), *(["", _plain(doubts)] if doubts else [])]


def _fields(entry: Entry) -> list[str]:
    """The text of an entry, and an empty field for each further column that it fills."""
    text = f"{entry.text}{MARK}" if entry.doubt else entry.text
    return [f"{text} {entry.note}".strip(), *[""] * (entry.span - 1)]


def _waterfall(block: Waterfall) -> list[str]:
    steps = (block.first, *block.steps, block.last)
    rows = ((step.name, step.text, step.exact) for step in steps)
    return [*_heading(block.caption), _plain(block.label), "", *_grid(("step", "adds", "exactly"), rows)]


def _grid(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(_plain, names))} |", f"|{'---|' * len(names)}"]
    return [*lines, *(f"| {' | '.join(map(_plain, row))} |" for row in rows)]


def _plain(text: str) -> str:
    """Text that stays text: no field ends in it, and no markup begins."""
    text = " ".join(text.split("\n")).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


_FORM = Form(_plain, drawn, title="## {}", section="### {}", banner="> **{}**", strong="**{}**")
