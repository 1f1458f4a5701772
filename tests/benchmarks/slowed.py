"""TRIO, slowed down by a known CPU time: the planted slow-down of `identical_sweeps.py`."""

import os
import time
from dataclasses import dataclass, replace
from typing import ClassVar

from tests.benchmarks.program import SLOWED_MS
from trio_core.methods.method import Reference
from trio_core.methods.trio import Trio
from trio_core.methods.view import Selection, View


@dataclass(frozen=True, kw_only=True)
class Slowed(Trio):
    """Select as TRIO does, and burn a known CPU time in each prefill, divided among the stages."""

    name: ClassVar[str] = "slowed"
    reference: ClassVar[Reference] = replace(Trio.reference, caution="slowed down on purpose")

    def select(self, view: View) -> Selection:
        """The selection of TRIO. Then one thread burns this stage's part of the CPU time."""
        selection = super().select(view)
        milliseconds = float(os.environ.get(SLOWED_MS, "0"))
        if milliseconds:
            burn(milliseconds / len(view.pictures[0].schedule.layers))
        return selection


def burn(milliseconds: float) -> None:
    """Use the CPU in this thread for so long. Time in which the thread has no CPU does not count."""
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        pass
