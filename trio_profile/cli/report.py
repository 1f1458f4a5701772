"""`trio-profile report`: rebuild report.html from measurements.jsonl, on any machine, without torch."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import Json, print_document


def command(
    directory: Annotated[Path, typer.Argument(help="A directory that holds measurements.jsonl.")],
    json: Json = False,
) -> None:
    """Rebuild the report of a study from its measurements."""
    from trio_profile.analysis.summary import summarise
    from trio_profile.cli import tables
    from trio_profile.report import write
    from trio_profile.store import Store

    contents = Store(directory).read()
    document = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    document = document.model_copy(update={"report": str(write(document, directory))})
    tables.warn(contents.dropped)
    if json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_document(document)
