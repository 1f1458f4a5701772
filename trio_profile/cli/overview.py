"""How far a study of several workers is, as text."""

from typing import TYPE_CHECKING

from trio_profile import units
from trio_profile.cli.progress import time_left

if TYPE_CHECKING:
    from trio_profile.engine.overview import Overview


def summary(state: "Overview") -> str:
    """Return the state in one line."""
    parts = [
        f"{state.measured} of {units.number_of(state.measured + state.given_up + state.left, 'run')} measured",
        f"{state.given_up} given up" if state.given_up else "",
        f"{len(state.running)} in progress" if state.running else "",
        time_left(state.seconds_left),
        *(f"not used: {text}" for text in state.refused),
    ]
    return ", ".join(part for part in parts if part)


def lines(state: "Overview") -> str:
    """Return the summary, and a line for each run that is measured now."""
    return "\n".join([summary(state), *(f"{run}: {worker}" for run, worker in state.running.items())])
