"""`trio-profile report`: rebuild report.html from measurements.jsonl, on any machine, without torch."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import Json


def command(
    directory: Annotated[Path, typer.Argument(help="A directory that holds measurements.jsonl.")],
    json: Json = False,
) -> None:
    """Rebuild the report of a study from its measurements."""
    from trio_profile.cli.publish import publish
    from trio_profile.store import Store

    publish(Store(directory).read(), directory, as_json=json)
