"""`trio-profile check`: can the numbers of a study be believed, and if not, what to do about it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli.options import Json, print_document

if TYPE_CHECKING:
    from trio_profile.analysis.stability import Doubt
    from trio_profile.records.store import Contents


def command(
    directory: Annotated[Path, typer.Argument(help="A directory that holds measurements.jsonl.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is any doubt.")] = False,
    json: Json = False,
) -> None:
    """Print every doubt about the cells of a study, each with its number, its threshold and the next step."""
    from trio_profile.analysis.stability import doubts
    from trio_profile.cli import tables
    from trio_profile.records.store import Store

    contents = Store(directory).read()
    found = doubts(contents.study, contents.measurements, contents.dense)
    tables.warn(contents.dropped)
    if json:
        print_document(_document(contents, found))
    else:
        tables.print_doubts(contents.measurements, found)
    if strict and found:
        raise typer.Exit(1)


def _document(contents: "Contents", found: list["Doubt"]) -> str:
    import json as encoder

    from trio_profile.records.schema import FORMAT, VERSION

    document = {
        "format": FORMAT,
        "version": VERSION,
        "environment": contents.environment.model_dump(),
        "study": contents.study.model_dump(),
        "doubts": [doubt.model_dump() for doubt in found],
    }
    return encoder.dumps(document, indent=2)
