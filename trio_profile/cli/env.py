"""`trio-profile env`: the environment that is kept with every number."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form
from trio_profile.installation import core_fault
from trio_profile.optional import set_broken_torchvision_aside

if TYPE_CHECKING:
    from trio_profile.records.schema import Environment

NEEDED = ("torch", "transformers")
"""What tells the device."""


def command(*, form: Form) -> None:
    """Show the machine, the device and the libraries, which are stored with every measurement.

    Without the extra `run`, the device and its threads are unknown.
    """
    from trio_profile.report.listing import environment

    machine, tested = _collected(), _tested()
    printing.show(
        form,
        lambda: printing.listed(environment=machine.model_dump(), transformers_tested=tested),
        lambda: environment(machine, tested),
    )


def _tested() -> dict[str, bool]:
    """The releases of transformers that pruning was tested on, each with whether it is the installed one."""
    if core_fault() or any(find_spec(name) is None for name in NEEDED):
        return {}
    from trio_core.releases import TESTED, installed

    return {release: release == installed() for release in TESTED}


def _collected() -> "Environment":
    """The environment of this machine. A `trio_core` that is not ours is named on standard error."""
    if fault := core_fault():
        printing.warn([fault])
    if any(find_spec(name) is None for name in NEEDED):
        from trio_profile.inputs.host import without_torch

        return without_torch()
    set_broken_torchvision_aside()
    import torch

    from trio_profile.inputs.environment import collect

    return collect("cuda" if torch.cuda.is_available() else "cpu")
