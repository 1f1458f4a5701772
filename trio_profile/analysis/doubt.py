"""A doubt: a reason not to trust the numbers of one cell, or of the whole study."""

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trio_profile import units
from trio_profile.analysis.cells import by_session, speedups
from trio_profile.records.schema import Cell, Measurement, Record
from trio_profile.stats.intervals import median

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
    "busy",
    "machine",
    "threads",
    "sessions",
    "cached",
    "commits",
    "client saturated",
    "queueing at the client",
    "failed requests",
    "failures left out",
    "overload",
    "unfinished",
    "unequal answers",
    "prompt length",
    "prefix cache",
    "few requests",
    "one piece",
    "unsteady warm-up",
    "no steady gain",
]

DENSE_MATTERS = 0.05
"""A relative difference of two dense times below this is no fault. Fresh processes of one program differ by 4 to 7 %
[measured: seven sweeps of the pocket model on a quiet machine]. It cancels in the speed-up."""


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


def doubted_cells(doubts: Sequence[Doubt], cells: Collection[Cell]) -> dict[str, tuple[Kind, ...]]:
    """Return the kinds of doubt about each doubted cell, by the cell's id. Each kind is named once.

    cells: the cells that are asked about. Doubts about the whole study are left out.
    """
    names, found = {cell.id for cell in cells}, dict[str, dict[Kind, None]]()
    for doubt in doubts:
        if doubt.cell is not None and doubt.cell.id in names:
            found.setdefault(doubt.cell.id, {})[doubt.kind] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


def prefill_speedups(measurement: Measurement) -> list[float]:
    """Return the speed-up of each pair."""
    return speedups(measurement.pairs, "prefill_ms")


def speedup_groups(measurement: Measurement) -> list[list[float]]:
    """Return the speed-up of each pair, by session."""
    return [speedups(pairs, "prefill_ms") for pairs in by_session(measurement)]


def dense_groups(measurement: Measurement) -> list[list[float]]:
    """Return the dense prefill time of each pair in milliseconds, by session."""
    return [[pair.dense_prefill_ms for pair in pairs] for pairs in by_session(measurement)]


def pruned_groups(measurement: Measurement) -> list[list[float]]:
    """Return the pruned prefill time of each pair in milliseconds, by session."""
    return [[pair.prefill_ms for pair in pairs] for pairs in by_session(measurement)]


def relative(groups: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return all values, each divided by the median of its session. So the spread between sessions is no fault.

    groups: values by session, each in the order of measurement.
    """
    return np.concatenate([np.asarray(group) / median(group) for group in groups])


def position(groups: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return where each value stands in its session: 0 at the begin, 1 at the end."""
    return np.concatenate([(np.arange(len(group)) + 0.5) / len(group) for group in groups])
