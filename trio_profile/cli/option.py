"""What an option of the study verbs is, and the panels of the help in which options stand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trio_profile.cli.common_options import OUTPUT
from trio_profile.cli.worker_options import WORKERS

SERVER, MODEL, METHOD, INPUT, CLAIM, SAMPLING = "Server", "Model", "Method", "Input", "Claim", "Sampling"
PANELS = (SERVER, MODEL, METHOD, INPUT, CLAIM, SAMPLING, OUTPUT, WORKERS)
"""Panels of a verb's help, in their order."""


@dataclass(frozen=True)
class Option:
    """One option of the command line.

    panel: the heading under which a verb's help lists it.
    type: what typer reads.
    help: one sentence.
    default: the default of Study, as the help says it. A kind with a default of its own overrides it.
    empty: what an empty default of a kind means, as the help says it.
    names: on the command line, the main one first. Empty: made from the option's name.
    read: makes the field's value from what typer read.
    minimum: the smallest number that is accepted.
    metavar: what the help shows for the value.
    positional: whether it is an argument without a name.
    """

    panel: str
    type: Any
    help: str
    default: str = ""
    empty: str = ""
    names: tuple[str, ...] = ()
    read: Callable[[Any], Any] | None = None
    minimum: int | None = None
    metavar: str | None = None
    positional: bool = False
