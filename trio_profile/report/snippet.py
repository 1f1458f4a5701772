"""The beginning of a report as a small piece of HTML for a notebook: no script, no style sheet, nothing loaded."""

from dataclasses import replace
from html import escape

from trio_profile import units
from trio_profile.report import rows
from trio_profile.report.blocks import Report, Sentences, Table
from trio_profile.report.columns import chosen_rows, doubted, first_columns
from trio_profile.report.preparing import prepare, unbroken

MOST_ROWS = 40
"""A longer table is cut, and says so."""


def snippet(report: Report) -> str:
    """The heading, the first sentences and the first table of a report."""
    report = prepare(report)
    blocks = [block for page in report.pages for block in page.blocks]
    sentences = next((block for block in blocks if isinstance(block, Sentences)), None)
    table = next((block for block in blocks if isinstance(block, Table) and block.rows), None)
    heading = _text(f"{report.subject} {report.preposition} {report.model}")
    parts = [f"<p><b>{heading}</b><br><small>{_text(' · '.join(report.facts))}</small></p>"]
    parts += [f"<p><b>{_text(report.banner)}</b></p>"] if report.banner else []
    parts += [f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in sentences.lines)}</ul>"] if sentences else []
    parts += [f"<p>{_text(badge.title)}, because {_text(badge.why)}.</p>" for badge in report.confidence]
    parts += [_table(table)] if table else []
    return f'<div class="trio-profile">{"".join(parts)}</div>'


def _table(table: Table) -> str:
    """A table with the rows and columns that the page shows at first."""
    table = first_columns(chosen_rows(table))
    left = len(table.rows) - MOST_ROWS
    cut = replace(table, rows=table.rows[:MOST_ROWS])
    below = [*([units.number_of(left, "more row")] if left > 0 else []), doubted(cut)]
    notes = "".join(f"<p><small>{_text(line)}</small></p>" for line in below if line)
    head = f"<caption>{_text(cut.caption)}</caption><thead>{rows.head(cut, sortable=False)}</thead>"
    return f"<table>{head}<tbody>{rows.body(cut)}</tbody></table>{notes}"


def _text(text: str) -> str:
    """Text that stays text, also inside an attribute."""
    return escape(unbroken(text))
