"""The progress of a running study."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """The step that a study is at.

    text: a description for people, such as `trio at 0.22: pair 12`.
    done: expected seconds of the finished work.
    total: expected seconds of all work; 0 if it is not known yet.
    """

    text: str
    done: float = 0.0
    total: float = 0.0


Watch = Callable[[Step], None]
"""A function that a study calls with each step."""


def ignore(step: Step) -> None:
    """Do nothing. This is the `Watch` of a study that shows no progress."""
