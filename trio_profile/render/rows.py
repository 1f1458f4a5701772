"""The head and the rows of a table as HTML. A template would take several times as long for a table of 500 rows."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from markupsafe import Markup, escape

from trio_profile.findings.blocks import Entry, Table
from trio_profile.render.columns import MARK, placed
from trio_profile.render.palette import hex_colour, symbol

_LEAST_TO_SORT = 3
"""Tables with fewer rows are not sorted."""


def head(table: Table, heads: Mapping[str, str] = MappingProxyType({}), *, sortable: bool = True) -> Markup:
    """The rows of a table's head: its groups and its names. A name is a button where the table can be sorted.

    heads: what a name means, which its title tells. By the name as it is written, or in lower case.
    sortable: whether a script can sort the table.
    """
    sortable = sortable and len(table.rows) >= _LEAST_TO_SORT and not table.prose and not table.compact
    names = []
    for column, name in enumerate(table.columns):
        shown = f'<button type="button" class="sort">{escape(name)}</button>' if sortable and name else escape(name)
        names.append(f'<th scope="col"{_classes(_place(table, column, 1))}{_meaning(name, heads)}>{shown}</th>')
    groups, start = [], 0
    for text, span in table.groups:
        scope = ' scope="colgroup"' if text else ""
        shown = f"<span>{escape(text)}</span>" if text else ""
        place = f"{_classes(_place(table, start, span))}{_width(table, start, span)}"
        groups.append(f"<th{scope}{place}{_meaning(text, heads)}>{shown}</th>")
        start += span
    lines = [f'<tr class="groups">{"".join(groups)}</tr>'] if groups else []
    return Markup("\n".join([*lines, f"<tr>{''.join(names)}</tr>"]))


def body(table: Table, *, doubts: str = "") -> Markup:
    """The rows of a table.

    doubts: id of the section that the marks of doubted entries link to; empty if the page has none.
    """
    return Markup("\n".join(_row(table, row, doubts) for row in table.rows))


def dot(colour: int | None) -> Markup:
    """The symbol of a method in its colour."""
    return Markup('<i class="dot {}" style="--colour: {}"></i>').format(symbol(colour), hex_colour(colour))


def _row(table: Table, row: Sequence[Entry], doubts: str) -> str:
    return f"<tr>{''.join(_field(table, start, entry, doubts) for start, entry in placed(row))}</tr>"


def _field(table: Table, start: int, entry: Entry, doubts: str) -> str:
    """One entry. An entry with more to tell can have the focus, so that keyboard and touch reach its title."""
    tag, scope = ("th", ' scope="row"') if start < table.keys else ("td", "")
    classes = f"{entry.tone} {_place(table, start, entry.span)}".strip()
    more = f' tabindex="-1" title="{escape(entry.title)}"' if entry.title else ""
    order = "" if entry.order is None else f' data-order="{entry.order:.9g}"'
    text = f"{dot(entry.colour) if entry.colour is not None else ''}{escape(entry.text)}{_mark(entry, doubts)}"
    note = f" <small>{escape(entry.note)}</small>" if entry.note else ""
    shown = f"<span>{text}{note}</span>" if start < table.keys else text + note
    return f"<{tag}{scope}{_classes(classes)}{_width(table, start, entry.span)}{order}{more}>{shown}</{tag}>"


def _mark(entry: Entry, doubts: str) -> str:
    """The mark of a doubted entry; empty for any other. The reason stands in its title."""
    if not entry.doubt:
        return ""
    reason = f'class="mark" title="{escape(entry.doubt)}"'
    mark = f'<span aria-hidden="true">{MARK}</span>'
    if doubts:
        return f'<a {reason} href="#{escape(doubts)}">{mark}</a>'
    return f'<span {reason} role="note" tabindex="0">{mark}</span>'


def _meaning(name: str, heads: Mapping[str, str]) -> str:
    """The title of a head whose meaning is known; empty for any other."""
    meaning = heads.get(name) or heads.get(name.lower())
    return f' title="{escape(meaning)}"' if meaning else ""


def _place(table: Table, start: int, span: int) -> str:
    """Classes of an entry's place: `key` for a column that names the row, `more` for one that is hidden at first."""
    if table.first is not None and start >= table.first:
        return "more"
    return "key" if start + span <= table.keys else ""


def _width(table: Table, start: int, span: int) -> str:
    """How many columns an entry fills, and how many of them are always in sight if not all are."""
    if span == 1:
        return ""
    shown = span if table.first is None else min(span, table.first - start)
    return f' colspan="{span}"' + (f' data-shown="{shown}"' if 0 < shown < span else "")


def _classes(names: str) -> str:
    return f' class="{names}"' if names else ""
