"""`trio-profile env`: the environment that is kept with every number."""

from typing import TYPE_CHECKING, Annotated

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form
from trio_profile.installation import core_fault
from trio_profile.optional import require_run, set_broken_torchvision_aside

if TYPE_CHECKING:
    from trio_profile.records.schema import Environment


def command(
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")] = None,
    *,
    form: Form,
) -> None:
    """Show the machine, the device and the libraries, which are stored with every measurement.

    Without the extra `run`, the device and its threads are unknown.
    """
    from trio_profile.findings.listing import environment

    machine = _collected(device)
    printing.show(form, lambda: printing.listed(environment=machine.model_dump()), lambda: environment(machine))


def _collected(device: str | None) -> "Environment":
    """The environment of this machine. A `trio_core` that is not ours is named on standard error.

    Raises StudyError if a device is named and the extra `run` is missing, or `trio_core` is not ours.
    """
    from importlib.util import find_spec

    needed = ("torch", "transformers")
    if device is not None:
        require_run("env", needed)
    elif fault := core_fault():
        printing.warn([fault])
    if any(find_spec(name) is None for name in needed):
        from trio_profile.inputs.host import without_torch

        return without_torch()
    set_broken_torchvision_aside()
    import torch

    from trio_profile.inputs.environment import collect

    if device is None:
        return collect("cuda" if torch.cuda.is_available() else "cpu")
    from trio_profile.inputs.models import device_of

    return collect(str(device_of(device)))
