"""`trio-profile export`: a kept study for a paper, a spreadsheet or a data frame, or one of its figures."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, flag
from trio_profile.text import printable_json

if TYPE_CHECKING:
    from trio_profile.report.figures import Picture


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
        str | None,
        flag("--figure", "Only this figure of the page, as the name of --out ends; otherwise as SVG.", metavar="NAME"),
    ] = None,
) -> None:
    """Write a study in another form: Markdown, LaTeX, CSV, Parquet, JSON, or one figure as SVG, PDF or PNG.

    CSV and Parquet have one row for each cell, and each quantity in three columns: the value and its 95 % interval.
    """
    from trio_profile.study import exporting

    if figure is not None:
        if format is not None or pairs or requests or cells:
            raise typer.BadParameter("--figure takes --out, not --format, --pairs, --requests or --cells")
        picture: Picture = exporting.form_of(out, None, exporting.PICTURES, "svg")
        content, finished = exporting.figure(directory, figure, picture)
    else:
        form = exporting.form_of(out, format, exporting.ENDINGS)
        if out is None and form == "parquet":
            raise typer.BadParameter("parquet is no text, so it is not printed: name a file with --out")
        content, finished = exporting.exported(directory, form, pairs=pairs, requests=requests, cells=cells)
    printing.warn(finished.warnings)
    if out is not None:
        exporting.write(out, content)
        printing.write(str(out))
        return
    text = content.decode() if isinstance(content, bytes) else content
    if format == "json":
        sys.stdout.write(printable_json(text, sys.stdout.encoding or "utf-8"))
    else:
        printing.write(text)
