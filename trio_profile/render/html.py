"""A report as one self-contained HTML file: data, style, plotly and figures inside, nothing loaded from anywhere."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trio_profile.findings.blocks import Chart, Report, Tokens, Waterfall
from trio_profile.records.files import REPORT
from trio_profile.records.schema import FORMAT, VERSION
from trio_profile.records.writing import write_whole
from trio_profile.render.cleaning import clean_report
from trio_profile.render.palette import hex_colour
from trio_profile.render.token_data import token_data
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
    has_tokens = any(isinstance(block, Tokens) for page in report.pages for block in page.blocks)
    return _template().render(
        report=report,
        format=f"{FORMAT} format {VERSION}",
        css=_inlined("page.css"),
        tokens_css=_inlined("tokens.css") if has_tokens else "",
        tokens_js=_inlined("tokens.js") if has_tokens else "",
        plotly=_plotly() if drawn else "",
        data=Markup(embeddable(report.data)),
    )


def write(report: Report, directory: Path) -> Path:
    """Write `report.html` into `directory`, whole or not at all, and return its path.

    Raises StoreError when it cannot be written.
    """
    path = directory / REPORT
    write_whole(path, render(report))
    return path


def embeddable(json: str) -> str:
    """JSON that can stand inside a script element: without `<` no name in it can end the element."""
    return printable_json(json).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _inlined(name: str) -> Markup:
    """A style or a script of ours, as it stands in the page."""
    return Markup((_HERE / name).read_text(encoding="utf-8"))


def _token_data(block: Tokens) -> Markup:
    return Markup(embeddable(token_data(block)))


def _plotly() -> Markup:
    """plotly's script. It is five megabytes, so a report without figures does not load it."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _template():
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"drawn": _drawn, "unbroken": unbroken, "hex": hex_colour, "token_data": _token_data}
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
