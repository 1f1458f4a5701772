"""One figure of a report as a picture file. kaleido draws it in the Chrome or Chromium of this machine."""

import os
import shutil
from typing import Literal

from trio_profile.errors import StudyError
from trio_profile.findings.blocks import Chart, Report, Waterfall
from trio_profile.render.cleaning import clean_report

Picture = Literal["svg", "pdf", "png"]
WIDTH = 720
"""In pixels; the height is that of the figure on the page."""
_SHARPER = 2
"""Pixels of a PNG for each pixel of the page."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def names(report: Report) -> list[str]:
    """The names of the figures, in the order of the page."""
    return [block.id for page in report.pages for block in page.blocks if isinstance(block, Chart | Waterfall)]


def picture(report: Report, name: str, form: Picture) -> bytes:
    """A figure as the content of a file.

    Raises StudyError if no figure has this name, or if the extra `figures` or a browser is missing.
    """
    blocks = [block for page in clean_report(report).pages for block in page.blocks]
    found = next((block for block in blocks if isinstance(block, Chart | Waterfall) and block.id == name), None)
    if found is None:
        known = ", ".join(names(report)) or "none: this study has no figures"
        raise StudyError(f"no figure is called {name!r}; choose one of {known}")
    _require_drawing(form)
    from plotly import io

    from trio_profile.render import drawing

    drawn = drawing.figure(found) if isinstance(found, Chart) else drawing.waterfall(found)
    try:
        return io.to_image(drawn, format=form, width=WIDTH, scale=_SHARPER if form == "png" else 1)
    except Exception as error:  # kaleido and the browser raise errors of many classes
        raise StudyError(f"the figure {name!r} could not be drawn: {type(error).__name__}: {error}") from error


def _require_drawing(form: Picture) -> None:
    """Raise StudyError unless kaleido and a browser are there. A browser that is found is named to kaleido."""
    try:
        import kaleido  # noqa: F401 # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise StudyError(
            f"a figure as {form} needs the extra 'figures' ({error}): pip install 'trio-profile[figures]'"
        ) from error
    if os.environ.get("BROWSER_PATH"):
        return
    path = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        raise StudyError(
            f"a figure as {form} needs Chrome or Chromium, and none is on the PATH: install one, or set BROWSER_PATH"
        )
    os.environ["BROWSER_PATH"] = path
