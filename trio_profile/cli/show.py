"""`trio-profile show`: print a study that was kept, without writing anything."""

from typing import Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import DIRECTORY, JSON, LATEX, MARKDOWN, OUTPUT


def command(
    directory: DIRECTORY,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every table, the detailed ones too.", rich_help_panel=OUTPUT)
    ] = False,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """Print the study of a directory. Nothing is written and nothing is measured."""
    form = printing.form(json=json, markdown=markdown, latex=latex)
    from trio_profile.studies import running

    found = running.read(directory)
    printing.warn(found.warnings)
    printing.show_study(found, form, directory, everything=everything)
