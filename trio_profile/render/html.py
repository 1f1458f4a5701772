"""A report as one self-contained HTML file: data, style, plotly and figures inside, nothing loaded from anywhere."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trio_profile.findings.blocks import Chart, Report, Waterfall
from trio_profile.records.files import REPORT
from trio_profile.records.schema import FORMAT, VERSION
from trio_profile.records.writing import write_whole
from trio_profile.render.cleaning import clean_report
from trio_profile.render.palette import hex_colour
from trio_profile.render.signature import require_ours
from trio_profile.render.wrapping import unbroken
from trio_profile.text import printable_json

_HERE = Path(__file__).parent
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,  # plotly offers to upload the data unless told not to
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def render(report: Report) -> str:
    """The report as HTML text. The document itself stands in it as JSON, in `<script id="data">`."""
    report = clean_report(report)
    drawn = any(isinstance(block, Chart | Waterfall) for page in report.pages for block in page.blocks)
    return _template().render(
        report=report,
        format=f"{FORMAT} format {VERSION}",
        css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        plotly=_plotly() if drawn else "",
        data=Markup(embeddable(report.data)),
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


def embeddable(json: str) -> str:
    """JSON that can stand inside a script element: without `<` no name in it can end the element."""
    return printable_json(json).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plotly() -> Markup:
    """plotly's script. It is five megabytes, so a report without figures does not load it."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _template():
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"drawn": _drawn, "unbroken": unbroken, "hex": hex_colour}
    return environment.get_template("page.html")


def _drawn(block: Chart | Waterfall) -> Markup:
    """A figure's element and the script that draws it."""
    from trio_profile.render import drawing

    figure = drawing.figure(block) if isinstance(block, Chart) else drawing.waterfall(block)
    return Markup(
        figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            div_id=f"figure-{block.id}",
            config={**_CONFIG, "toImageButtonOptions": {"format": "svg", "filename": block.id}},
            default_height=f"{figure.layout.height}px",
        )
    )
