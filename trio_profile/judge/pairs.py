"""The raw pairs of a study, cell by cell: what a chart of single runs, the page's data and `export --pairs` need."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from trio_profile.judge.doubts import is_disturbed
from trio_profile.records.documents import Document
from trio_profile.records.schema import Measurement, Options, Pair, Record, Session
from trio_profile.records.timing import TIMES, Phase

COLUMNS = tuple(name for time in TIMES for name in (f"dense_{time}", time) if name != "dense_selection_ms")
"""The times of a pair: of the dense runs of its round, and of the cell's run. The dense model selects nothing."""


class CellPairs(Record):
    """The pairs of one cell, in the order of measurement: one list a quantity, one entry a pair. Nothing is rounded.

    method, retention, options: the cell.
    session: the session that measured the pair: 1 for the first one of the document; 0 if it is not known.
    phase: whether the runs are prefills or whole generations.
    disturbed: whether other processes had the CPU for so long that the run's times are doubted; None if not known.
    times: by name the times, as in `records.timing.Timed`; `dense_` for the geometric mean of the round's dense runs.
        Times that no pair of the cell has are left out.
    clock_mhz: the GPU's clock.
    """

    method: str
    retention: float
    options: Options = Field(default_factory=dict)
    session: list[int]
    phase: list[Phase]
    disturbed: list[bool | None]
    times: dict[str, list[float | None]]
    clock_mhz: list[int | None] | None = None


def pairs_of(measurements: Sequence[Measurement], sessions: Sequence[Session]) -> list[CellPairs]:
    """Return the pairs of each cell that was timed.

    sessions: of the study, in the order in which they began.
    """
    numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
    return [_of_cell(measurement, numbers) for measurement in measurements if measurement.pairs]


def _of_cell(measurement: Measurement, numbers: dict[str, int]) -> CellPairs:
    """Return the pairs of one cell. numbers: number of each session, by its id."""
    cell = measurement.cell
    phases: dict[Phase, str] = {"prefill": "pairs", "generation": "generations"}
    pairs: list[tuple[int, Phase, Pair]] = [
        (numbers.get(timing.session, 0), phase, pair)
        for timing in measurement.timings
        for phase, field in phases.items()
        for pair in getattr(timing, field)
    ]
    columns = {name: [_time_of(pair, name) for _, _, pair in pairs] for name in COLUMNS}
    clocks, waits = [pair.clock_mhz for _, _, pair in pairs], [pair.pruned.disturbance for _, _, pair in pairs]
    return CellPairs(
        method=cell.method,
        retention=cell.retention,
        options=cell.options,
        session=[session for session, _, _ in pairs],
        phase=[phase for _, phase, _ in pairs],
        disturbed=[None if wait is None else is_disturbed(wait) for wait in waits],
        times={name: values for name, values in columns.items() if any(value is not None for value in values)},
        clock_mhz=clocks if any(mhz is not None for mhz in clocks) else None,
    )


def _time_of(pair: Pair, column: str) -> float | None:
    """Return one time of a pair. column: one of COLUMNS."""
    name = column.removeprefix("dense_")
    return getattr(pair.pruned if name == column else pair.dense, name)


def json_with_pairs(document: Document) -> str:
    """Return a document as JSON with its raw pairs, if it has any. `--json` leaves them out."""
    pairs: Sequence[CellPairs] = getattr(document, "pairs", ())
    if not pairs:
        return document.model_dump_json()
    content: dict[str, Any] = document.model_dump(mode="json")
    content["pairs"] = [cell.model_dump(mode="json", exclude_none=True) for cell in pairs]
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
