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
from rich.table import Table as Grid
from rich.text import Text

from trio_profile import units
from trio_profile.records.conclusion import Conclusion
from trio_profile.report.blocks import (
    Block,
    Chart,
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
from trio_profile.report.columns import chosen_rows, doubted, first_columns, has_others, marked, with_columns
from trio_profile.report.preparing import lines, prepare

HINT = "trio-profile show DIR --all prints every table."
_STYLES = {"gain": "green", "loss": "red", "absent": "dim"}
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
    _show_conclusion(report.conclusion, console)
    left_out = False
    for page in report.pages:
        blocks = (
            list(page.blocks)
            if everything
            else [_first(block, console.width) for block in page.blocks if not (block.detail or page.folded)]
        )
        left_out = left_out or blocks != list(page.blocks)
        if blocks or (everything and not page.blocks):
            _show_page(page, blocks, console, titled=everything or page.title != "Verdict")
    if left_out:
        console.print("", Text(hint, style="dim"), sep="\n")


def _show_head(report: Report, console: Console) -> None:
    """The heading, the facts and the banner."""
    console.print(_text(f"{report.subject} {report.preposition} {report.model}", console.width, "bold"))
    if report.facts:
        console.print(_text(" · ".join(report.facts), console.width, "dim"))
    if report.banner:
        console.print(_text(report.banner, console.width, "bold yellow"))


def _show_conclusion(conclusion: Conclusion | None, console: Console) -> None:
    """The word of the conclusion in bold, its sentence, how sure it is, and the next command."""
    for head, text in conclusion.lines if conclusion else ():
        line = _text(f"{head}: {text}", console.width)
        line.stylize("bold", 0, len(head) + 1)
        console.print(line)


def _first(block: Block, width: int) -> Block:
    """The block without the columns that are not always in sight, and with its `most` rows.

    Of those in sight, the last ones are left out until `width` holds the table.
    """
    if not isinstance(block, Table):
        return block
    table = first_columns(chosen_rows(block))
    if table.most is not None and len(table.rows) > table.most:
        order = f"{table.order} The first {table.most} of {units.number_of(len(table.rows), 'row')}.".strip()
        table = replace(table, rows=table.rows[: table.most], order=order)
    if not has_others(block):
        return table
    first, *_ = _parts(_columns(table), table.keys, width, gap=1)
    return with_columns(table, range(len(first)))


def _show_page(page: Page, blocks: Sequence[Block], console: Console, *, titled: bool) -> None:
    """Print a page."""
    if titled:
        console.print("", Text(page.title, style="bold underline"), sep="\n")
    for drawing in [["", *drawn(block, console.width)] for block in blocks] or [[_text(page.empty, console.width)]]:
        console.print(*drawing, sep="\n")


def drawn(block: Block, width: int = 80) -> list[RenderableType]:
    """One block as the terminal prints it, in `width` columns."""
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
    texts = [text for text in (block.label, block.note, *(drawn.text for drawn in block.maps)) if text]
    return [*_heading(block.caption, width, "italic"), *(_text(text, width) for text in texts)]


# Tables


def _table(block: Table, width: int) -> list[RenderableType]:
    """The table, cut into several below one another where it is too wide. Each has the columns that name a row."""
    columns = _columns(block)
    drawing = _heading(block.title, width, "italic")
    gap = 2 if len(_parts(columns, block.keys, width, gap=2)) == 1 else 1
    for number, part in enumerate(_parts(columns, block.keys, width, gap)):
        drawing += [Text("")] * bool(number)
        drawing.append(_grid(part, gap))
    return [*drawing, *_heading(doubted(block), width, "dim")]


@dataclass(frozen=True)
class _Column:
    """A column of a table.

    cells: its entries. In a wide column, notes stand on a line of their own.
    key: whether it names the row. prose: whether its lines are wrapped.
    """

    name: str
    cells: Sequence[Text]
    key: bool
    prose: bool

    @property
    def width(self) -> int:
        """How wide it is at least."""
        return max(min(_LONG, _widest(self.cells)), *map(cell_len, self.name.split()), 1)


def _columns(block: Table) -> list[_Column]:
    columns = []
    for number, name in enumerate(block.columns):
        cells = [_cell(row[number], " ") for row in block.rows]
        if block.prose or _widest(cells) > _LONG:
            cells = [_cell(row[number], "\n") for row in block.rows]
        columns.append(_Column(name, cells, number < block.keys, block.prose or _widest(cells) > _LONG))
    return columns


def _cell(entry: Entry, before_note: str) -> Text:
    parts = [part for part in (marked(entry), entry.note) if part]
    return Text(before_note.join(parts), style=_STYLES.get(entry.tone, ""))


def _widest(cells: Sequence[Text]) -> int:
    return max((cell_len(line) for cell in cells for line in cell.plain.splitlines()), default=0)


def _parts(columns: Sequence[_Column], keys: int, width: int, gap: int) -> list[list[_Column]]:
    """The columns in parts that `width` holds. Each part has the columns that name a row.

    gap: how many blanks stand between columns.
    """
    parts = [list(columns[:keys])]
    for column in columns[keys:]:
        taken = sum(before.width + gap for before in parts[-1])
        if taken + column.width > width and len(parts[-1]) > keys:
            parts.append(list(columns[:keys]))
        parts[-1].append(column)
    return parts


def _grid(part: Sequence[_Column], gap: int) -> Grid:
    """Columns side by side."""
    grid = _plain_grid(gap)
    for column in part:
        grid.add_column(
            Text("\n".join(wrap(column.name, column.width, break_long_words=False, break_on_hyphens=False))),
            justify="left" if column.key or column.prose else "right",
            no_wrap=not column.prose,
            overflow="fold",
        )
    for row in zip(*(column.cells for column in part), strict=True):
        grid.add_row(*row)
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
