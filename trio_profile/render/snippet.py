"""The beginning of a report as a small piece of HTML for a notebook: no script, no style sheet, nothing loaded."""

from collections.abc import Sequence
from html import escape

from trio_profile import units
from trio_profile.findings.blocks import Entry, Report, Sentences, Table
from trio_profile.render.columns import MARK, chosen_rows, doubted, first_columns, placed
from trio_profile.render.preparing import prepare, unbroken

_CELL = "padding:.2em .8em .2em 0;text-align:{align};vertical-align:top;white-space:nowrap"
_TONES = {"gain": "color:#0a7d6c", "loss": "color:#b4472c", "absent": "opacity:.6"}
MOST_ROWS = 40
"""A longer table is cut, and says so."""


def snippet(report: Report) -> str:
    """The heading, the first sentences and the first table of a report."""
    report = prepare(report)
    blocks = [block for page in report.pages for block in page.blocks]
    sentences = next((block for block in blocks if isinstance(block, Sentences)), None)
    table = next((block for block in blocks if isinstance(block, Table) and block.rows), None)
    parts = [f"<p><b>{_text(f'{report.subject} {report.preposition} {report.model}')}</b><br>{_facts(report)}</p>"]
    if report.banner:
        parts.append(f"<p><b>{_text(report.banner)}</b></p>")
    if report.confidence is not None:
        parts.append(f"<p>Confidence: {_text(report.confidence.level)}, because {_text(report.confidence.why)}.</p>")
    if sentences is not None:
        parts.append(f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in sentences.lines)}</ul>")
    if table is not None:
        parts.append(_table(table))
    return f'<div class="trio-profile">{"".join(parts)}</div>'


def _facts(report: Report) -> str:
    return f"<small>{_text(' · '.join(report.facts))}</small>"


def _table(table: Table) -> str:
    """A table without the columns that stand behind “more columns”."""
    table = first_columns(chosen_rows(table))
    head = "".join(
        f'<th style="{_style(number, table)}">{_text(name)}</th>' for number, name in enumerate(_names(table))
    )
    rows = "".join(_row(row, table) for row in table.rows[:MOST_ROWS])
    left = len(table.rows) - MOST_ROWS
    below = [units.number_of(left, "more row")] if left > 0 else []
    below += [doubts] if (doubts := doubted(table)) else []
    told = "".join(f"<p><small>{_text(line)}</small></p>" for line in below)
    caption = f'<caption style="text-align:left">{_text(table.caption)}</caption>' if table.caption else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{told}"


def _names(table: Table) -> list[str]:
    """The names of the columns, with the heading over several columns before each."""
    groups = [text for text, span in table.groups for _ in range(span)]
    groups += [""] * (len(table.columns) - len(groups))
    return [" ".join(part for part in pair if part) for pair in zip(groups, table.columns, strict=True)]


def _row(row: Sequence[Entry], table: Table) -> str:
    return f"<tr>{''.join(_cell(entry, place, table) for place, entry in placed(row))}</tr>"


def _cell(entry: Entry, place: int, table: Table) -> str:
    style = ";".join(part for part in (_style(place, table), _TONES.get(entry.tone, "")) if part)
    title = f' title="{_text(entry.title or entry.doubt)}"' if entry.title or entry.doubt else ""
    note = f" <small>{_text(entry.note)}</small>" if entry.note else ""
    doubt = f"<sup>{MARK}</sup>" if entry.doubt else ""
    across = f' colspan="{entry.span}"' if entry.span > 1 else ""
    return f'<td style="{style}"{across}{title}>{_text(entry.text)}{doubt}{note}</td>'


def _style(place: int, table: Table) -> str:
    style = _CELL.format(align="left" if place < table.keys or table.prose else "right")
    return style.replace("nowrap", "normal") if table.prose else style


def _text(text: str) -> str:
    """Text that stays text, also inside an attribute."""
    return escape(unbroken(text))
