"""The head and the rows of a table as HTML. A template would take several times as long for a table of 500 rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from markupsafe import Markup, escape

from trio_profile.records.estimate import Interval
from trio_profile.report.blocks import Entry, Table
from trio_profile.report.columns import MARK
from trio_profile.report.palette import colour_class, symbol

_LEAST_TO_SORT = 3
"""Tables with fewer rows are not sorted."""


def head(table: Table, heads: Mapping[str, str] = MappingProxyType({}), *, sortable: bool = True) -> Markup:
    """The row of a table's head. A name is a button where the table can be sorted.

    heads: what a name means, which its title tells. By the name as it is written, or in lower case.
    sortable: whether a script can sort the table.
    """
    sortable = sortable and len(table.rows) >= _LEAST_TO_SORT and not table.prose and not table.compact
    fields = []
    for column, name in enumerate(table.columns):
        text = f'<button type="button" class="sort">{escape(name)}</button>' if sortable and name else escape(name)
        meaning = heads.get(name) or heads.get(name.lower())
        title = f' title="{escape(meaning)}"' if meaning else ""
        tag, scope = ("th", ' scope="col"') if name else ("td", "")  # a head without a word heads nothing
        fields.append(f"<{tag}{scope}{_classes(_place(table, column))}{title}>{text}</{tag}>")
    return Markup(f"<tr>{''.join(fields)}</tr>")


def body(table: Table, *, doubts: str = "") -> Markup:
    """The rows of a table.

    doubts: id of the section that the marks of doubted entries link to; empty if the page has none.
    """
    scales = {
        at: _scale([row[at] for row in table.rows], table.drawn[name])
        for at, name in enumerate(table.columns)
        if name in table.drawn
    }
    return Markup("\n".join(_row(table, row, doubts, scales) for row in table.rows))


def dot(colour: int | None) -> Markup:
    """The symbol of a method in its colour."""
    return Markup('<i class="dot {} {}"></i>').format(symbol(colour), colour_class(colour))


@dataclass(frozen=True)
class _Scale:
    """The axis that the drawings of a column share: its ends, and the value that is neither gain nor loss."""

    low: float
    high: float
    level: float

    def percent(self, value: float) -> str:
        """The place of a value on the axis."""
        return f"{100 * (value - self.low) / (self.high - self.low or 1):.3g}%"


def _scale(entries: Sequence[Entry], level: float) -> _Scale:
    """The scale of a column. It holds every value, and of much wider intervals a part."""
    known = [(entry.order, *_ends(entry)) for entry in entries if entry.order is not None]
    if not known:
        return _Scale(level, level, level)
    values, lows, highs = zip((level, level, level), *known, strict=True)
    least, most = min(values), max(values)
    room = max((most - least) / 2, median((high - low) / 2 for _, low, high in known))
    return _Scale(max(least - room, min(lows)), min(most + room, max(highs)), level)


def _ends(entry: Entry) -> Interval:
    """The ends of an entry's whisker: its interval, or its value twice."""
    return entry.bounds or (entry.order or 0.0, entry.order or 0.0)


def _drawing(entry: Entry, scale: _Scale) -> Markup:
    """The whisker and the mark of an entry on the scale of its column. A whisker that goes on ends with an arrow."""
    low, high = _ends(entry)
    arrows = _classes(f"{'low ' * (low < scale.low)}{'high' * (high > scale.high)}".strip())
    values = {"level": scale.level, "low": max(low, scale.low), "high": min(high, scale.high), "at": entry.order or 0.0}
    style = ";".join(f"--{name}:{scale.percent(value)}" for name, value in values.items())
    return Markup(f'<span class="range" style="{style}" aria-hidden="true"><b{arrows}></b>{dot(entry.colour)}</span>')


def _row(table: Table, row: Sequence[Entry], doubts: str, scales: Mapping[int, _Scale]) -> str:
    """One row. What its entries are sorted by stands in one attribute, which is shorter than one in each entry."""
    fields = (_field(table, column, entry, doubts, scales.get(column)) for column, entry in enumerate(row))
    orders = ",".join("" if entry.order is None else f"{entry.order:.6g}" for entry in row)
    attribute = f' data-orders="{orders}"' if orders.strip(",") else ""
    return f"<tr{attribute}>{''.join(fields)}</tr>"


def _field(table: Table, column: int, entry: Entry, doubts: str, scale: _Scale | None) -> str:
    """One entry. What more it has to tell is its title: tips.js leads the keyboard and touch to it.

    scale: of a drawn column; None for any other.
    """
    tag, scope = ("th", ' scope="row"') if column < table.keys else ("td", "")
    classes = _classes(f"{entry.tone} {_place(table, column)}".strip())
    more = f' title="{escape(entry.title)}"' if entry.title else ""
    mark = dot(entry.colour) if entry.colour is not None and scale is None else ""
    text = f"{mark}{escape(entry.text)}{_mark(entry, doubts)}"
    text += f" <small>{escape(entry.note)}</small>" if entry.note else ""
    if scale is not None and entry.order is not None:
        text = f'<span class="drawn">{_drawing(entry, scale)}<span>{text}</span></span>'
    text = f"<span>{text}</span>" if column < table.keys else text
    return f"<{tag}{scope}{classes}{more}>{text}{'' if tag == 'td' else '</th>'}"  # HTML ends a td by itself


def _mark(entry: Entry, doubts: str) -> str:
    """The mark of a doubted entry; empty for any other. The reason stands in its title."""
    if not entry.doubt:
        return ""
    reason = f'class="mark" title="{escape(entry.doubt)}"'
    mark = f'<span aria-hidden="true">{MARK}</span>'
    if doubts:
        return f'<a {reason} href="#{escape(doubts)}">{mark}</a>'
    return f'<span {reason} role="note" tabindex="0">{mark}</span>'


def _place(table: Table, column: int) -> str:
    """The class of an entry's place: `key` for a column that names the row, `more` for one that is hidden at first."""
    if table.first is not None and column >= table.first:
        return "more"
    return "key" if column < table.keys else ""


def _classes(names: str) -> str:
    return f' class="{names}"' if names else ""
