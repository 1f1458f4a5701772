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

    runs = all(map(find_spec, NEEDED))
    if fault := core_fault():  # a `trio_core` that is not ours
        printing.warn([fault])
    machine, tested = _environment(runs), _tested() if runs and not fault else {}
    printing.show(
        form,
        lambda: printing.listed(environment=machine.model_dump(), transformers_tested=tested),
        lambda: environment(machine, tested),
    )


def _environment(runs: bool) -> "Environment":
    """The environment of this machine. runs: whether models can run here."""
    if not runs:
        from trio_profile.inputs.host import without_torch

        return without_torch()
    set_broken_torchvision_aside()
    import torch

    from trio_profile.inputs.environment import collect

    return collect("cuda" if torch.cuda.is_available() else "cpu")


def _tested() -> dict[str, bool]:
    """The releases of transformers that pruning was tested on, each with whether it is the installed one."""
    from trio_core.releases import TESTED, installed

    return {release: release == installed() for release in TESTED}
