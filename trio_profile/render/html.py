"""One self-contained html file: data, style, plotly and figures inside, nothing loaded from anywhere."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trio_profile.findings.blocks import Chart, Report
from trio_profile.records.schema import FORMAT, VERSION
from trio_profile.records.store import write_whole

REPORT = "report.html"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_HERE = Path(__file__).parent
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,  # plotly offers to upload the data unless told not to
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def render(report: Report) -> str:
    """The report as one html text. It holds the document itself, as JSON in `<script id="data">`."""
    return _template().render(
        report=report,
        format=f"{FORMAT} format {VERSION}",
        css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        plotly=_plotly() if any(isinstance(block, Chart) for page in report.pages for block in page.blocks) else "",
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
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plotly() -> Markup:
    """plotly's script; imported here, because a report without figures needs none of its five megabytes."""
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _template():
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"drawn": _drawn, "unbroken": _unbroken}
    return environment.get_template("page.html")


def _drawn(chart: Chart) -> Markup:
    """A figure's element and the script that draws it."""
    return Markup(
        chart.figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            div_id=f"figure-{chart.id}",
            config={**_CONFIG, "toImageButtonOptions": {"format": "svg", "filename": chart.id}},
            default_height=f"{chart.figure.layout.height}px",
        )
    )


def _unbroken(text: str) -> str:
    """Text in which no line ends inside an interval or between a number and its unit."""
    text = re.sub(r"\[[\d., ]+\]", lambda found: found[0].replace(" ", _NO_BREAK), text)
    return re.sub(r"(?<=\d) (?=%|[KMGT]iB|\[)", _NO_BREAK, text)
