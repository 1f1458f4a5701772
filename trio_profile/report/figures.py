"""One figure of a report as a picture file. kaleido draws a chart in the Chrome or Chromium of this machine."""

from collections.abc import Callable
from typing import Literal

from trio_profile.errors import StudyError
from trio_profile.installation import missing_extra
from trio_profile.report import drawing
from trio_profile.report.blocks import Chart, Report, Waterfall
from trio_profile.report.html import PLOTLY
from trio_profile.report.preparing import clean_report

Picture = Literal["svg", "pdf", "png"]
WIDTH = 720
"""In pixels; the height is that of the figure on the page."""
_SHARPER = 2
"""Pixels of a PNG for each pixel of the page."""
_DRAWN = Chart | Waterfall


def names(report: Report) -> list[str]:
    """The names of the figures, in the order of the page."""
    return [block.id for page in report.pages for block in page.blocks if isinstance(block, _DRAWN)]


def picture(report: Report, name: str, form: Picture) -> bytes:
    """A figure as the content of a file.

    Raises StudyError if no figure has this name, or if the extra `export` or a browser is missing.
    """
    blocks = [block for page in clean_report(report).pages for block in page.blocks]
    drawn = next((block for block in blocks if isinstance(block, _DRAWN) and block.id == name), None)
    if drawn is None:
        known = ", ".join(names(report)) or "none: this study has no figures"
        raise StudyError(f"no figure is called {name!r}; choose one of {known}")
    draw = _kaleido(form)
    figure = drawing.figure(drawn) if isinstance(drawn, Chart) else drawing.waterfall(drawn)
    size = {"width": WIDTH, "height": figure["layout"]["height"], "scale": _SHARPER if form == "png" else 1}
    try:
        return draw(
            {"data": figure["data"], "layout": figure["layout"]},
            opts={"format": form, **size},
            # Without these kaleido loads MathJax from the network, and plotly too.
            kopts={"mathjax": False, "plotlyjs": PLOTLY.as_uri()},
        )
    except Exception as error:  # kaleido and the browser raise errors of many classes
        way_out = "it needs Chrome or Chromium: install one, or set BROWSER_PATH"
        raise StudyError(f"the figure {name!r} was not drawn; {way_out}. {type(error).__name__}: {error}") from error


def _kaleido(form: Picture) -> Callable[..., bytes]:
    """kaleido's function that draws a figure. Raises StudyError if it is not installed."""
    try:
        import kaleido  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise StudyError(missing_extra(f"a figure as {form}", "export", error)) from error
    return kaleido.calc_fig_sync
