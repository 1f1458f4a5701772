"""`trio-profile report`: rebuild report.html from what a directory holds, on any machine, without torch."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import Json


def command(
    directory: Annotated[Path, typer.Argument(help="A directory that holds measurements.jsonl, or flops.json.")],
    json: Json = False,
) -> None:
    """Rebuild the report of a study from its measurements, or of a count from its document."""
    from trio_profile.analysis.reconciliation import FlopsDocument
    from trio_profile.cli.publish import FLOPS, publish, publish_flops
    from trio_profile.store import Store, kept

    if (directory / FLOPS).exists() and not Store(directory).exists():
        publish_flops(kept(directory / FLOPS, FlopsDocument), directory, as_json=json)
    else:
        publish(Store(directory).read(), directory, as_json=json)
