"""A report as one self-contained HTML file: data, style, plotly and figures inside, nothing loaded from anywhere.

`snippet` is its beginning for a notebook.
"""

import json
import re
import zlib
from base64 import b64encode
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from trio_profile import units
from trio_profile.errors import StoreError
from trio_profile.reading import open_regular
from trio_profile.records.schema import FORMAT, VERSION
from trio_profile.records.writing import require_regular, write_whole
from trio_profile.report import drawing, rows
from trio_profile.report.blocks import Chart, DrawnStage, Report, Sentences, Table, Terms, Tokens, Waterfall
from trio_profile.report.columns import chosen_rows, doubted, first_columns, has_others
from trio_profile.report.palette import PALETTE, colour_class
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
LONGEST_PLAIN = 100_000
"""Characters. Longer data stand in a page packed."""
MOST_ROWS = 40
"""In a notebook a longer table is cut, and says so."""


def render(report: Report) -> str:
    """The report as HTML text. The document itself stands in it as JSON, in `<script id="data">`."""
    report = prepare(report)
    blocks = [block for page in report.pages for block in page.blocks]
    drawn = any(isinstance(block, Chart | Waterfall) for block in blocks)
    return _template("page.html").render(
        report=report,
        format=f"{FORMAT} format {VERSION}",
        styles=[_file(_HERE / name) for name in STYLES],
        palette=PALETTE,
        scripts=[_file(_HERE / name) for name in SCRIPTS if drawn or name != FIGURES],
        plotly=_file(PLOTLY) if drawn else "",
        data=_held("data", report.data),
        csv=_held("csv", json.dumps(report.csv, ensure_ascii=False) if report.csv else ""),
        heads={name: text for block in blocks if isinstance(block, Terms) for name, text in block.heads.items()},
        doubts=DOUBTS if any(page.id == DOUBTS for page in report.pages) else "",
    )


def snippet(report: Report) -> str:
    """The heading, the first sentences and the first table as a small piece of HTML: no script, no style sheet."""
    report = prepare(report)
    blocks = [block for page in report.pages for block in page.blocks]
    sentences = next((block for block in blocks if isinstance(block, Sentences)), None)
    table = next((block for block in blocks if isinstance(block, Table) and block.rows), None)
    if table is not None:
        table = first_columns(chosen_rows(table))
    left = len(table.rows) - MOST_ROWS if table else 0
    return _template("snippet.html").render(
        report=report,
        sentences=sentences,
        table=table and replace(table, rows=table.rows[:MOST_ROWS], drawn={}),
        more=units.number_of(left, "more row") if left > 0 else "",
    )


def write_page(report: Report, path: Path) -> Path:
    """Write a report into a file, whole or not at all, and return its path.

    Raises StoreError when it cannot be written, or when another program's page has this name.
    """
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


def _held(name: str, text: str) -> Markup:
    """The element of JSON that a button saves. A long text is packed: deflated, and in base64. Empty without text."""
    if not text:
        return Markup("")
    form, text = "application/json", embeddable(text)
    if len(text) > LONGEST_PLAIN:
        form, text = "application/zlib", b64encode(zlib.compress(text.encode(), 9)).decode()
    return Markup(f'<script type="{form}" id="{name}">{text}</script>')


def _file(path: Path) -> Markup:
    """The text of a style or a script, as it is."""
    return Markup(path.read_text(encoding="utf-8"))


def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "figure": _figure,
        "token_data": token_data,
        "json": _json,
        "unbroken": _unbroken,
        "no_break": unbroken,
        "options": _options,
        "colour": colour_class,
        "dot": rows.dot,
        "head": rows.head,
        "body": rows.body,
        "has_others": has_others,
        "doubted": doubted,
    }
    return environment.get_template(name)


def _unbroken(text: str) -> Markup:
    """Text whose lines end neither inside an interval nor before a unit or in an option. Backticks become code."""
    return Markup(_CODE.sub(r"<code>\1</code>", _options(unbroken(text))))


def _options(command: str) -> Markup:
    """A command whose lines do not end in an option. It can be pasted: no blank is changed."""
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escape(command))))


def _figure(block: Chart | Waterfall) -> drawing.Figure:
    """The figure of a block. `narrow` is what differs in the layout of a narrow one."""
    figure = drawing.figure(block) if isinstance(block, Chart) else drawing.waterfall(block)
    return {**figure, "narrow": drawing.narrow_layout(block)}


def token_data(block: Tokens) -> Markup:
    """The tokens of a block as JSON, for the script that draws them. Kept tokens are one bit each."""
    data = {name: getattr(block, name) for name in ("picture", "frames", "count", "methods", "at", "grids")}
    names = ("method", "retention", "where")
    maps = [{name: getattr(drawn, name) for name in names} for drawn in block.maps]
    for drawn, of_map in zip(block.maps, maps, strict=True):
        of_map["stages"] = [*map(_stage, drawn.stages)]
    return _json({**data, "maps": maps})


def _stage(stage: DrawnStage) -> dict[str, Any]:
    """One stage. Bytes are base64. Parts that it does not have are left out."""
    import numpy as np  # most pages do not need it

    kept = np.packbits(np.frombuffer(stage.kept, dtype=np.uint8))
    parts: dict[str, Any] = {"layer": stage.layer, "text": stage.text, "kept": kept.tobytes()}
    if stage.scores:
        parts |= {"scores": stage.scores, "low": stage.low, "high": stage.high}
    if stage.merges:
        parts |= {"merges": True, "into": np.asarray(stage.merged_into, dtype="<i4").tobytes()}
    return {name: b64encode(part).decode() if isinstance(part, bytes) else part for name, part in parts.items()}


def _json(data: dict[str, Any]) -> Markup:
    """A figure, or the tokens of a block, as JSON."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=asdict)
    return Markup(embeddable(text))
