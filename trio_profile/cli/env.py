"""`trio-profile env`: the environment that is kept with every number."""

from typing import Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.options import JSON, LATEX, MARKDOWN


def command(
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")] = None,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """Show the machine, the device and the libraries, as they are kept with every measurement."""
    form = printing.form(json=json, markdown=markdown, latex=latex)
    import torch

    from trio_profile.findings.listing import environment
    from trio_profile.inputs.environment import collect
    from trio_profile.inputs.models import device_of

    found = collect(str(device_of(device or ("cuda" if torch.cuda.is_available() else "cpu"))))
    printing.show(form, lambda: printing.listed(environment=found.model_dump()), lambda: environment(found))
