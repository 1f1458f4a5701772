"""Reports as plain data: a report has pages, a page has blocks.

The renderers in `report/` draw these blocks: the terminal, the page, Markdown, LaTeX. They know no document and no
measurement. A block holds text and numbers, never a library's object.

A block with `detail=True` stands on the page, in Markdown and in LaTeX. The terminal shows it if asked for everything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from trio_profile.quantities.entries import Entry, Tone
from trio_profile.records.conclusion import Conclusion

Item = TypeVar("Item")
Dash = Literal["solid", "dash", "dot"]


@dataclass(frozen=True)
class Sentences:
    """A few sentences under a heading.

    tone: `finding`, or `doubt` for a sentence that weakens a finding.
    """

    kind: ClassVar[str] = "sentences"
    heading: str
    lines: Sequence[str]
    tone: Literal["finding", "doubt"] = "finding"
    detail: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of entries.

    keys: how many columns name the row, counted from the left. A renderer that splits a wide table repeats them.
    first: how many columns, counted from the left, are always in sight. The page hides the others until "more columns"
        is chosen. The terminal leaves them out, and of those in sight as many at the right as its width does not hold.
        None: all are in sight.
    switch: number of the column by whose values the page chooses rows; None for none. chosen: the value at first.
    order: the rule by which the rows are sorted, as a sentence. The page changes it when a reader sorts.
    drawn: heads of the columns whose intervals the page draws, each with the value that is neither gain nor loss.
    most: the terminal prints so many rows of a table that is not wanted whole; None: all.
    compact: half a page wide. prose: its entries are sentences, which begin at the left and run over several lines.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    compact: bool = False
    prose: bool = False
    keys: int = 1
    first: int | None = None
    switch: int | None = None
    chosen: str = ""
    order: str = ""
    drawn: Mapping[str, float] = field(default_factory=dict)
    most: int | None = None
    detail: bool = False

    @property
    def title(self) -> str:
        """The caption, with the rule by which the rows are sorted."""
        return ". ".join(filter(None, (self.caption, self.order)))


def tabulate(
    caption: str, columns: Mapping[str, Callable[[Item], Entry]], items: Iterable[Item], **options: Any
) -> Table:
    """Return a table with a row for each item.

    columns: by head, the function that makes the entry of an item.
    options: further fields of the table.
    """
    rows = [[entry(item) for entry in columns.values()] for item in items]
    return Table(caption, tuple(columns), rows, **options)


@dataclass(frozen=True)
class Terms:
    """Terms and what they stand for. heads: what the head of a column means, by its text. The page shows it there."""

    kind: ClassVar[str] = "terms"
    heading: str
    items: Sequence[tuple[str, str]]
    heads: Mapping[str, str] = field(default_factory=dict)
    detail: bool = False


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    low, high: its ends; where they are None, the data decide. suffix: written after each number, as ` %` or `×`.
    log: logarithmic.
    """

    title: str
    low: float | None = None
    high: float | None = None
    suffix: str = ""
    log: bool = False


@dataclass(frozen=True)
class Series:
    """One line, or one set of points, of a chart.

    x, y: as many as there are points.
    text: the tooltip of each point. Of several lines, the first is bold.
    low, high: each point's interval in y, drawn as a band along the line.
    colour: number of a method's colour; None is the quiet ink of the axes.
    line: how the line is drawn; None for points alone, which are then small. points: whether points are drawn, with the
        colour's symbol.
    group: series of one group are shown and hidden together; empty for the name. legend: whether the legend names it.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    text: Sequence[str] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    colour: int | None = None
    line: Dash | None = "solid"
    points: bool = True
    group: str = ""
    legend: bool = True


@dataclass(frozen=True)
class Span:
    """A part of the x axis with a name, drawn behind the series. tone: its colour, as that of an entry."""

    low: float
    high: float
    name: str
    tone: Tone = ""


@dataclass(frozen=True)
class Chart:
    """Series over two axes.

    id: unique in the report.
    label: describes the chart for readers who cannot see it. The terminal prints it.
    levels: y values of horizontal lines, such as the one at which pruned and dense are equal.
    uprights: x values of vertical lines, such as a stage between two layers. spans: named parts of the x axis.
    """

    kind: ClassVar[str] = "chart"
    id: str
    caption: str
    label: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[float] = ()
    uprights: Sequence[float] = ()
    spans: Sequence[Span] = ()
    detail: bool = False


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall: what it adds, written shortly in `text` and with all digits in `exact`."""

    name: str
    value: float
    text: str
    exact: str = ""


@dataclass(frozen=True)
class Waterfall:
    """From one sum to another: `first`, then a bar for each step between the sums before and after it, then `last`.

    The last one's value is the sum of all others.
    """

    kind: ClassVar[str] = "waterfall"
    id: str
    caption: str
    label: str
    first: Step
    steps: Sequence[Step]
    last: Step
    detail: bool = False


@dataclass(frozen=True)
class Grid:
    """Tokens that lie on the whole picture in rows. In row r and column c is token first + r · (columns + newline) + c.

    newline: whether one more token follows each row, which lies on no part of the picture.
    """

    name: str
    rows: int
    columns: int
    first: int = 0
    newline: bool = False


@dataclass(frozen=True)
class DrawnStage:
    """The tokens that stay at one stage.

    layer: after this layer; 0 is before the first.
    text: how many stay, as a caption says it.
    kept: one byte for each token: 1 if it stays, otherwise 0.
    scores: one byte for each token: 0 is the lowest score, 254 the highest, 255 none. Empty if there are no scores.
    low, high: the lowest and the highest score, as text.
    merges: whether other tokens went into those that stay.
    merged_into: for each token the number of the one that it went into, −1 for none. Empty if that is not known.
    """

    layer: int
    text: str
    kept: bytes
    scores: bytes = b""
    low: str = ""
    high: str = ""
    merges: bool = False
    merged_into: Sequence[int] = ()


@dataclass(frozen=True)
class DrawnTokens:
    """The tokens that one method keeps at one retention.

    retention: a share of 0 to 1. where: the same as text.
    text: how many tokens stay at each stage, in one sentence.
    stages: in the order of their layers.
    """

    method: str
    retention: float
    where: str
    text: str
    stages: Sequence[DrawnStage]


@dataclass(frozen=True)
class Tokens:
    """The picture with the tokens that stay, and with their scores. Readers choose stage, retention and methods.

    id: unique in the report.
    label: describes the drawing for readers who cannot see it.
    note: what readers must know of the picture: its question, or why it is not shown.
    picture: a `data:` address; empty if there is nothing to show.
    frames: the frames of a clip, one for each grid; the picture is then the first of them.
    count: the number of the picture's tokens.
    methods: the names of those that are drawn at first, four at most. at: the retention at first; None: the lowest.
    """

    kind: ClassVar[str] = "tokens"
    id: str
    caption: str
    label: str
    count: int
    grids: Sequence[Grid]
    maps: Sequence[DrawnTokens]
    methods: Sequence[str]
    note: str = ""
    picture: str = ""
    frames: Sequence[str] = ()
    at: float | None = None
    detail: bool = False


Block = Sentences | Chart | Waterfall | Table | Terms | Tokens
"""A kind of block. Each renderer draws each of them: tests/profile/report/test_every_block.py."""


@dataclass(frozen=True)
class Page:
    """One section of the report.

    how_to_read: a paragraph under its title, in the first section under its blocks; the terminal leaves it out.
    empty: what stands there without blocks.
    folded: the line that the HTML page shows until the blocks are unfolded; empty if they are in sight.
    """

    id: str
    title: str
    how_to_read: str
    blocks: Sequence[Block]
    empty: str = "There is nothing to show here: no finished cell has these numbers."
    folded: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report.

    subject, preposition, model: the heading, in three parts: `trio`, `on`, `pocket`.
    facts: the line below the heading.
    banner: what readers must know before they read on; empty if there is nothing.
    conclusion: what follows, on top of the first page; None for a report of facts alone.
    data: the document as JSON, embedded in the page; empty for what is not kept.
    csv: its rows as CSV, embedded too; empty for a document without rows.
    """

    subject: str
    model: str
    facts: Sequence[str]
    pages: Sequence[Page]
    data: str = ""
    csv: str = ""
    preposition: str = "on"
    banner: str = ""
    conclusion: Conclusion | None = None
