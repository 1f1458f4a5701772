"""A report in the terminal: tables that fit 80 columns and can be pasted as they are.

All text is drawn as it is: nothing in it is read as rich's markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from textwrap import wrap
from typing import assert_never

from rich import box
from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from trio_profile import units
from trio_profile.findings.blocks import (
    Block,
    Chart,
    Confidence,
    Entry,
    Page,
    Report,
    Sentences,
    Step,
    Table,
    Terms,
    Tokens,
    Waterfall,
)
from trio_profile.render.columns import MARK, chosen_rows, doubted, first_columns, has_others, with_columns
from trio_profile.render.preparing import lines, prepare
from trio_profile.text import listed

HINT = "trio-profile show DIR --all prints every table."
_STYLES = {"gain": "green", "loss": "red", "absent": "dim"}
_CONFIDENCE = {"high": "green", "medium": "yellow", "low": "red"}
_NARROWEST = 20
"""A terminal that says it is narrower gets lines of this many columns."""
_LONG = 30
"""A column with wider entries holds prose: its lines are wrapped, and begin at the left."""


def show(report: Report, *, everything: bool = False, hint: str = HINT, console: Console | None = None) -> None:
    """Print a report. Details are printed only if `everything` is asked for.

    A detail is a page that is folded, a block with `detail=True`, a column that is not among the first ones of its
    table, a row that its switch does not choose, or one after its `most` rows.
    hint: the last line where a detail is left out.
    """
    report = prepare(report)
    console = console or Console(highlight=False)
    console.width = max(console.width, _NARROWEST)
    _show_head(report, console)
    left_out = False
    for page in report.pages:
        blocks = (
            list(page.blocks)
            if everything
            else [_first(block, console.width) for block in page.blocks if not (block.detail or page.folded)]
        )
        left_out = left_out or blocks != list(page.blocks)
        if blocks or (everything and not page.blocks):
            sure = report.confidence if page is report.pages[0] else ()
            _show_page(page, blocks, console, sure, titled=everything or page.title != "Verdict")
    if left_out:
        console.print("", Text(hint, style="dim"), sep="\n")


def _show_head(report: Report, console: Console) -> None:
    """The heading, the facts and the banner."""
    console.print(_text(f"{report.subject} {report.preposition} {report.model}", console.width, "bold"))
    if report.facts:
        console.print(_text(" · ".join(report.facts), console.width, "dim"))
    if report.banner:
        console.print(_text(report.banner, console.width, "bold yellow"))


def _first(block: Block, width: int) -> Block:
    """The block without the columns that are not always in sight, and with its `most` rows.

    Of those in sight, the last ones are left out until `width` holds the table. A table with groups is cut instead,
    because its columns stand for each other.
    """
    if not isinstance(block, Table):
        return block
    table = first_columns(chosen_rows(block))
    if table.most is not None and len(table.rows) > table.most:
        caption = f"{table.caption}. {table.most} of {units.number_of(len(table.rows), 'row')}"
        table = replace(table, rows=table.rows[: table.most], caption=caption)
    if not has_others(block) or table.groups:
        return table
    while len(table.columns) > table.keys + 1 and not _fits(_columns(table), width):
        table = with_columns(table, range(len(table.columns) - 1))
    return table


def _show_page(
    page: Page, blocks: Sequence[Block], console: Console, sure: Sequence[Confidence], *, titled: bool
) -> None:
    """Print a page. sure: the confidence that follows its first block."""
    if titled:
        console.print("", Text(page.title, style="bold underline"), sep="\n")
    first, *others = [["", *drawn(block, console.width)] for block in blocks] or [[_text(page.empty, console.width)]]
    badges = [_text(f"{one.title}, because {one.why}.", console.width, _CONFIDENCE[one.level]) for one in sure]
    for drawing in (first, badges, *others):
        if drawing:
            console.print(*drawing, sep="\n")


def drawn(block: Block, width: int = 80) -> list[RenderableType]:
    """What the terminal prints for one block, in `width` columns."""
    match block:
        case Sentences():
            return _sentences(block, width)
        case Terms():
            return _terms(block, width)
        case Table():
            return _table(block, width)
        case Waterfall():
            return _waterfall(block, width)
        case Tokens():
            return _tokens(block, width)
        case Chart():
            return [_text(f"chart: {block.caption}. {block.label} (on the page)", width)]
    assert_never(block)


def _text(text: str, width: int, style: str = "") -> Text:
    return Text("\n".join(lines(text, width)), style=style)


def _heading(text: str, width: int, style: str = "bold") -> list[RenderableType]:
    return [_text(text, width, style)] if text else []


def _sentences(block: Sentences, width: int) -> list[RenderableType]:
    style = "bold yellow" if block.tone == "doubt" else "bold"
    return [*_heading(block.heading, width, style), *(_text(line, width) for line in block.lines)]


def _terms(block: Terms, width: int) -> list[RenderableType]:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    room = width - 2 - max((cell_len(term) for term, _ in block.items), default=0)
    for term, text in block.items:
        grid.add_row(Text(term), _text(text, max(room, _LONG)))
    return [*_heading(block.heading, width), grid]


def _tokens(block: Tokens, width: int) -> list[RenderableType]:
    """How many tokens stay."""
    texts = [text for text in (block.label, block.note, *(one.text for one in block.maps)) if text]
    return [*_heading(block.caption, width, "italic"), *(_text(text, width) for text in texts)]


# Tables


def _table(block: Table, width: int) -> list[RenderableType]:
    """The table, cut into several below one another where it is too wide. Each has the columns that name a row."""
    columns = _columns(block)
    found: list[RenderableType] = _heading(block.caption, width, "italic")
    gap = 2 if _fits(columns, width, gap=2) else 1
    for number, part in enumerate(_parts(columns, block.keys, width, gap)):
        found += [Text("")] * bool(number)
        found.append(_grid(part, gap))
    # An entry over several columns would widen one of them. It stands below the table, after the names of its rows.
    wide: dict[tuple[str, str], list[str]] = {}
    for row in block.rows:
        name = " ".join(key.text for key in row[: block.keys])
        for entry in (one for one in row if one.span > 1):
            wide.setdefault((f"{_marked(entry)} {entry.note}".strip(), entry.tone), []).append(name)
    for (text, tone), names in wide.items():
        said = "\n".join(lines(f"{listed(names)}: {text}", width - 2))
        found.append(Padding(Text(said, style=_STYLES.get(tone, "")), (0, 0, 0, 2)))
    return [*found, *_heading(doubted(block), width, "dim")]


@dataclass(frozen=True)
class _Column:
    """A column of a table.

    group: the heading above its name. grouped: whether any column of the table has such a heading.
    key: whether it names the row. prose: whether its lines are wrapped.
    stacked: whether notes stand on a line of their own, below the text.
    """

    name: str
    entries: Sequence[Entry]
    group: str
    grouped: bool
    key: bool
    prose: bool
    stacked: bool

    @property
    def width(self) -> int:
        """How wide it is at least."""
        words = (cell_len(word) for word in (*self.name.split(), self.group))
        return max(min(_LONG, _widest(self.entries, stacked=self.stacked)), *words, 1)

    def head(self, *, with_group: bool) -> str:
        """Its name, in lines no longer than its entries, below the name of its group."""
        names = wrap(self.name, self.width, break_long_words=False, break_on_hyphens=False)
        return "\n".join([*([self.group if with_group else ""] if self.grouped else []), *names])

    def cell(self, entry: Entry) -> Text:
        """An entry of it."""
        parts = [part for part in (_marked(entry), entry.note) if part]
        return Text(("\n" if self.stacked else " ").join(parts), style=_STYLES.get(entry.tone, ""))


def _columns(block: Table) -> list[_Column]:
    """The columns of a table. An entry over several columns leaves them empty."""
    rows = [
        [one for entry in row for one in ([entry] if entry.span == 1 else [Entry("")] * entry.span)]
        for row in block.rows
    ]
    groups = [text for text, span in block.groups for _ in range(span)]
    groups += [""] * (len(block.columns) - len(groups))
    found = []
    for number, name in enumerate(block.columns):
        entries = [row[number] if number < len(row) else Entry("") for row in rows]
        stacked = block.prose or _widest(entries, stacked=False) > _LONG
        prose = block.prose or _widest(entries, stacked=True) > _LONG
        found.append(
            _Column(name, entries, groups[number], any(groups), number < block.keys, prose, stacked),
        )
    return found


def _widest(entries: Sequence[Entry], *, stacked: bool) -> int:
    if stacked:
        return max((cell_len(part) for entry in entries for part in (_marked(entry), entry.note)), default=0)
    return max((cell_len(f"{_marked(entry)} {entry.note}".strip()) for entry in entries), default=0)


def _marked(entry: Entry) -> str:
    """The text of an entry, with a mark if it is doubted."""
    return f"{entry.text}{MARK}" if entry.doubt else entry.text


def _fits(columns: Sequence[_Column], width: int, gap: int = 1) -> bool:
    """Whether `width` holds these columns side by side. gap: how many blanks stand between them."""
    return sum(column.width for column in columns) + gap * (len(columns) - 1) <= width


def _parts(columns: Sequence[_Column], keys: int, width: int, gap: int) -> list[list[_Column]]:
    """Which columns stand side by side, so that `width` holds them."""
    named = list(columns[:keys])
    parts = [list(named)]
    for column in columns[keys:]:
        taken = sum(one.width + gap for one in parts[-1])
        if taken + column.width > width and len(parts[-1]) > keys:
            parts.append(list(named))
        parts[-1].append(column)
    return parts


def _grid(part: Sequence[_Column], gap: int) -> Grid:
    """Columns side by side."""
    grid = _plain_grid(gap)
    before = ""
    for column in part:
        grid.add_column(
            Text(column.head(with_group=column.group != before)),
            justify="left" if column.key or column.prose else "right",
            no_wrap=not column.prose,
            overflow="fold",
        )
        before = column.group
    for row in zip(*(column.entries for column in part), strict=True):
        grid.add_row(*(column.cell(entry) for column, entry in zip(part, row, strict=True)))
    return grid


def _plain_grid(gap: int = 2) -> Grid:
    """No edges, and no rule but the one below the headings. gap: how many blanks stand between columns."""
    return Grid(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)


# Waterfalls


def _waterfall(block: Waterfall, width: int) -> list[RenderableType]:
    """Each step with what it adds, and the bar between the sums before and after it."""
    grid = _plain_grid()
    grid.show_header = False
    grid.add_column()
    for _ in range(2):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    sums = list(accumulate((block.first.value, *(step.value for step in block.steps))))
    low = min(0.0, *sums)
    size = max(*sums, low + 1e-12) - low

    def add(step: Step, name: str, begin: float, end: float) -> None:
        bar = Bar(size, min(begin, end) - low, max(begin, end) - low, width=20)
        grid.add_row(Text(name), Text(step.exact), Text(step.text), bar)

    add(block.first, block.first.name, 0, sums[0])
    for step, before, after in zip(block.steps, sums, sums[1:], strict=False):
        add(step, f"  {step.name}", before, after)
    add(block.last, block.last.name, 0, sums[-1])
    return [*_heading(block.caption, width, "italic"), grid, _text(block.label, width)]
