"""What reports are made of: a report has pages, a page has blocks. `html.py` draws them; it knows no document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # a report without figures does without plotly
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Sentences:
    """A few sentences under a heading. colour: the method they are about. tone: `finding` or `doubt`."""

    kind: ClassVar[str] = "sentences"
    heading: str
    lines: Sequence[str]
    colour: str | None = None
    tone: str = "finding"


@dataclass(frozen=True)
class Chart:
    """A figure. label: what one who cannot see it is told."""

    kind: ClassVar[str] = "chart"
    id: str
    caption: str
    label: str
    figure: "go.Figure"


@dataclass(frozen=True)
class Entry:
    """One field of a table. note: smaller, after the text. title: on hover. tone: `gain`, `loss`, `absent` or none."""

    text: str
    note: str = ""
    title: str = ""
    tone: str = ""
    colour: str | None = None
    span: int = 1


@dataclass(frozen=True)
class Table:
    """Rows of entries. groups: headings over several columns, each with how many. compact: half a page wide.

    prose: its entries are sentences, which begin at the left and run over several lines.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    groups: Sequence[tuple[str, int]] = ()
    compact: bool = False
    prose: bool = False


@dataclass(frozen=True)
class Terms:
    """Terms and what they stand for."""

    kind: ClassVar[str] = "terms"
    heading: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """One section of the report."""

    id: str
    title: str
    how_to_read: str
    blocks: Sequence[Sentences | Chart | Table | Terms]


@dataclass(frozen=True)
class Report:
    """A whole report. subject, joint, model: the heading. facts: beneath it. data: the document, as JSON."""

    subject: str
    model: str
    facts: Sequence[str]
    pages: Sequence[Page]
    data: str
    joint: str = "on"
