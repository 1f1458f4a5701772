"""`trio-profile env`: the environment that is kept with every number."""

from typing import Annotated

import typer

from trio_profile.cli.options import Json, print_document


def command(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json: Json = False,
) -> None:
    """Show the machine, the libraries and the device as they are recorded."""
    import json as encoder

    from rich.console import Console
    from rich.table import Table

    from trio_profile.inputs.environment import collect
    from trio_profile.inputs.models import device_of

    found = collect(str(device_of(device)))
    if json:
        document = {"format": "trio-profile", "version": 1, "environment": found.model_dump()}
        print_document(encoder.dumps(document, indent=2))
        return
    table = Table("field", "value")
    for name, value in found.model_dump(exclude_none=True).items():
        table.add_row(name, str(value))
    Console().print(table)
