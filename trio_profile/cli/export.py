"""`trio-profile export`: a kept study for a paper, a spreadsheet or a data frame, or one of its figures."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, flag
from trio_profile.text import printable_json

FIGURE = "Figure"
"""Panel of the help."""


def command(
    directory: DIRECTORY,
    format: Annotated[
        Literal["md", "latex", "csv", "parquet", "json"] | None,
        flag("--format", "The form. Default: as the name of --out ends: .md, .tex, .csv, .parquet, .json."),
    ] = None,
    out: Annotated[Path | None, flag("--out", "Write this file instead of printing.")] = None,
    pairs: Annotated[bool, flag("--pairs", "The raw pairs, one row for each pair: csv, parquet, json.")] = False,
    requests: Annotated[
        bool, flag("--requests", "The requests of `endpoints`, one row for each: csv, parquet, json.")
    ] = False,
    cells: Annotated[bool, flag("--cells", "Only the table of all cells: md, latex.")] = False,
    figure: Annotated[
        str | None, flag("--figure", "Only this figure of the page.", panel=FIGURE, metavar="NAME")
    ] = None,
    to: Annotated[
        Literal["svg", "pdf", "png"] | None,
        flag("--to", "The form of the figure. Default: as the name of --out ends, otherwise svg.", panel=FIGURE),
    ] = None,
) -> None:
    """Write a study in another form: Markdown, LaTeX, CSV, Parquet, JSON, or one figure as SVG, PDF or PNG.

    CSV and Parquet have one row for each cell, and each quantity in three columns: the value and its 95 % interval.
    """
    from trio_profile.study import exporting

    if figure is not None:
        if format is not None or pairs or requests or cells:
            raise typer.BadParameter("--figure takes --to and --out, not --format, --pairs, --requests or --cells")
        picture: Literal["svg", "pdf", "png"] = exporting.form_of(out, to, exporting.PICTURES, "svg")
        form = picture
        _require_file(out, form)
        content, finished = exporting.figure(directory, figure, picture)
    else:
        if to is not None:
            raise typer.BadParameter("--to is the form of a figure: name one with --figure")
        form = exporting.form_of(out, format, exporting.ENDINGS)
        _require_file(out, form)
        content, finished = exporting.exported(directory, form, pairs=pairs, requests=requests, cells=cells)
    printing.warn(finished.warnings)
    if out is not None:
        exporting.write(out, content)
        printing.write(str(out))
        return
    text = content.decode() if isinstance(content, bytes) else content
    if form == "json":
        sys.stdout.write(printable_json(text, sys.stdout.encoding or "utf-8"))
    else:
        printing.write(text)


def _require_file(out: Path | None, form: str) -> None:
    """Raise BadParameter for a form that cannot be printed, unless a file is named."""
    if out is None and form in ("parquet", "pdf", "png"):
        raise typer.BadParameter(f"{form} is no text, so it is not printed: name a file with --out")
