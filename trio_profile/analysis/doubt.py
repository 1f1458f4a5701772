"""A doubt: a reason not to trust the numbers of one cell, or of the whole study."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trio_profile import units
from trio_profile.analysis.cells import speedups
from trio_profile.records.schema import Cell, Measurement, Record

Kind = Literal[
    "samples",
    "budget",
    "spread",
    "drift",
    "multimodality",
    "order",
    "autocorrelation",
    "clock",
    "strangers",
    "machine",
    "cached",
]

LEAST_PAIRS = 6
"""The least number of pairs for which a 95 % interval of the median exists (the sign test)."""


class Doubt(Record):
    """A reason not to trust some numbers.

    cell: the cell with these numbers; None for the whole study.
    kind: name of the test that failed.
    sentence: what the test found.
    next_step: what the user can do.
    found: the number that the test computed.
    threshold: the number that it was compared with.
    """

    cell: Cell | None
    kind: Kind
    sentence: str
    next_step: str
    found: float
    threshold: float


def cell_name(cell: Cell | None) -> str:
    """Return a cell's name for a sentence: `trio at 33.0 %`."""
    if cell is None:
        return "the whole study"
    return f"{cell.variant} at {units.percent(cell.retention)}"


def prefill_speedups(measurement: Measurement) -> list[float]:
    """Return the speed-up of each pair."""
    return speedups(measurement.pairs, "prefill_ms")


def dense_prefills(measurement: Measurement) -> NDArray[np.float64]:
    """Return the dense prefill time of each pair in milliseconds."""
    return np.array([pair.dense_prefill_ms for pair in measurement.pairs])


def pruned_prefills(measurement: Measurement) -> NDArray[np.float64]:
    """Return the pruned prefill time of each pair in milliseconds."""
    return np.array([pair.prefill_ms for pair in measurement.pairs])
