"""A report as one self-contained HTML file: data, style, plotly and figures inside, nothing loaded from anywhere."""

import json
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from trio_profile.errors import StoreError
from trio_profile.reading import open_regular
from trio_profile.records.files import REPORT
from trio_profile.records.schema import FORMAT, VERSION
from trio_profile.records.writing import require_regular, write_whole
from trio_profile.report import drawing, rows
from trio_profile.report.blocks import Chart, Report, Terms, Tokens, Waterfall
from trio_profile.report.columns import doubted, has_others
from trio_profile.report.palette import hex_colour
from trio_profile.report.preparing import prepare, unbroken
from trio_profile.text import printable_json

_HERE = Path(__file__).parent
_OPTION = re.compile(r"(?<!\w)--[a-z][a-z-]*")
_CODE = re.compile("`([^`]+)`")
STYLES = ("page.css", "tables.css", "figures.css", "tokens.css", "paper.css")
SCRIPTS = ("data.js", "tables.js", "tips.js", "figures.js", "tokens.js")
"""Files beside this one that each page holds. A script runs in a function of its own."""
FIGURES = "figures.js"
"""The script that a page without figures does not need."""
PLOTLY = _HERE / "plotly" / "plotly-finance.min.js"
"""plotly's script, of which a page needs scatter and waterfall: scripts/plotly_bundle."""
_HEAD_BYTES = 16 * 1024
"""The signature stands before the style, within the first bytes of a page."""
_GENERATOR = re.compile(rf'<meta name="generator" content="{re.escape(FORMAT)} format [^"]*">')
"""The signature of a page. A page without it is never overwritten."""
DOUBTS = "doubts"
"""Id of the section that the marks of doubted entries link to."""


def render(report: Report) -> str:
    """The report as HTML text. The document itself stands in it as JSON, in `<script id="data">`."""
    report = prepare(report)
    blocks = [block for page in report.pages for block in page.blocks]
    drawn = any(isinstance(block, Chart | Waterfall) for block in blocks)
    return _template().render(
        report=report,
        format=f"{FORMAT} format {VERSION}",
        styles=[_file(_HERE / name) for name in STYLES],
        scripts=[_file(_HERE / name) for name in SCRIPTS if drawn or name != FIGURES],
        plotly=_file(PLOTLY) if drawn else "",
        data=Markup(embeddable(report.data)),
        csv=Markup(embeddable(json.dumps(report.csv, ensure_ascii=False))),
        heads={name: text for block in blocks if isinstance(block, Terms) for name, text in block.heads.items()},
        doubts=DOUBTS if any(page.id == DOUBTS for page in report.pages) else "",
    )


def write(report: Report, directory: Path) -> Path:
    """Write `report.html` into `directory`, whole or not at all, and return its path.

    Raises StoreError when it cannot be written, or when another program's page has this name.
    """
    return write_page(report, directory / REPORT)


def write_page(report: Report, path: Path) -> Path:
    """Write a report into a file, whole or not at all, and return its path. Raises StoreError as `write` does."""
    require_ours(path)
    write_whole(path, render(report))
    return path


def is_ours(path: Path) -> bool:
    """Whether a file may be replaced by a page: it is a page of trio-profile, or it is empty.

    Raises StoreError if it cannot be read, or if it is no regular file.
    """
    require_regular(path)
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    return not head or bool(_GENERATOR.search(head))


def require_ours(path: Path) -> None:
    """Raise StoreError if there is a file of this name that trio-profile did not write."""
    try:
        exists = path.exists()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if exists and not is_ours(path):
        raise StoreError(f"{path} was not written by trio-profile and is kept: move it, or choose another --out")


def embeddable(text: str) -> str:
    """JSON that can stand inside a script element: without `<` no name in it can end the element."""
    return printable_json(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(path: Path) -> Markup:
    """The text of a style or a script, as it is."""
    return Markup(path.read_text(encoding="utf-8"))


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "figure": _figure,
        "token_data": _token_data,
        "json": _json,
        "unbroken": _unbroken,
        "hex": hex_colour,
        "dot": rows.dot,
        "head": rows.head,
        "body": rows.body,
        "has_others": has_others,
        "doubted": doubted,
    }
    return environment.get_template("page.html")


def _unbroken(text: str) -> Markup:
    """Text whose lines end neither inside an interval nor before a unit or in an option. Backticks become code."""
    plain = _OPTION.sub(r'<span class="option">\g<0></span>', str(escape(unbroken(text))))
    return Markup(_CODE.sub(r"<code>\1</code>", plain))


def _figure(block: Chart | Waterfall) -> drawing.Figure:
    """The figure of a block. `narrow` is what differs in the layout of a narrow one."""
    figure = drawing.figure(block) if isinstance(block, Chart) else drawing.waterfall(block)
    return {**figure, "narrow": drawing.narrow_layout(block)}


def _token_data(block: Tokens) -> Markup:
    """The tokens of a block as JSON, for the script that draws them."""
    from trio_profile.report.token_data import token_data  # imports numpy, which most pages do not need

    return Markup(embeddable(token_data(block)))


def _json(figure: drawing.Figure) -> Markup:
    """A figure as JSON, for the script that draws it."""
    return Markup(embeddable(json.dumps(figure, ensure_ascii=False, allow_nan=False, separators=(",", ":"))))
