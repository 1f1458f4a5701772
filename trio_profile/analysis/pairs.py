"""The raw pairs of a study, cell by cell: what a chart of single runs, the page's data and `export --pairs` need."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from trio_profile.analysis.machine_doubts import is_disturbed
from trio_profile.records.documents import Document
from trio_profile.records.schema import Measurement, Options, Pair, Record, Session

TIMES = tuple(name for name in Pair.model_fields if name.endswith("_ms"))
"""The times of a pair, in the order of `Pair`."""


class CellPairs(Record):
    """The pairs of one cell, in the order of measurement: one list a quantity, one entry a pair. Nothing is rounded.

    method, retention, options: the cell.
    session: the session that measured the pair: 1 for the first one of the document; 0 if it is not known.
    dense_first: whether the dense run came before the pruned run.
    disturbed: whether other processes had the CPU for so long that the pair's times are doubted; None if not known.
    *_ms: the times, as in `records.timing.Pair`. None if no pair of the cell has this time.
    clock_mhz: the GPU's clock.
    """

    method: str
    retention: float
    options: Options = Field(default_factory=dict)
    session: list[int]
    dense_first: list[bool]
    disturbed: list[bool | None]
    dense_prefill_ms: list[float]
    dense_total_ms: list[float]
    prefill_ms: list[float]
    total_ms: list[float]
    dense_ttft_ms: list[float | None] | None = None
    ttft_ms: list[float | None] | None = None
    dense_host_ms: list[float | None] | None = None
    host_ms: list[float | None] | None = None
    dense_vision_ms: list[float | None] | None = None
    vision_ms: list[float | None] | None = None
    dense_projector_ms: list[float | None] | None = None
    projector_ms: list[float | None] | None = None
    selection_ms: list[float | None] | None = None
    dense_cpu_ms: list[float | None] | None = None
    cpu_ms: list[float | None] | None = None
    clock_mhz: list[int | None] | None = None


def pairs_of(measurements: Sequence[Measurement], sessions: Sequence[Session]) -> list[CellPairs]:
    """Return the pairs of each cell that was timed.

    sessions: of the study, in the order in which they began.
    """
    numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
    return [_of_cell(measurement, numbers) for measurement in measurements if measurement.pairs]


def _of_cell(measurement: Measurement, numbers: dict[str, int]) -> CellPairs:
    """Return the pairs of one cell. numbers: number of each session, by its id."""
    pairs, cell = measurement.pairs, measurement.cell
    columns = {name: [getattr(pair, name) for pair in pairs] for name in (*TIMES, "clock_mhz")}
    return CellPairs(
        method=cell.method,
        retention=cell.retention,
        options=cell.options,
        session=[numbers.get(timing.session, 0) for timing in measurement.timings for _ in timing.pairs],
        dense_first=[pair.dense_first for pair in pairs],
        disturbed=[None if pair.disturbance is None else is_disturbed(pair.disturbance) for pair in pairs],
        **{name: values for name, values in columns.items() if any(value is not None for value in values)},
    )


def json_with_pairs(document: Document) -> str:
    """Return a document as JSON with its raw pairs, if it has any. `--json` leaves them out."""
    pairs: Sequence[CellPairs] = getattr(document, "pairs", ())
    if not pairs:
        return document.model_dump_json()
    found: dict[str, Any] = document.model_dump(mode="json")
    found["pairs"] = [cell.model_dump(mode="json", exclude_none=True) for cell in pairs]
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def speedups_by_session(cell: CellPairs, quantity: str) -> list[list[float]]:
    """Return the ratio dense / pruned of each pair, by session, each session in the order of measurement.

    quantity: `prefill_ms` or `total_ms`.
    """
    found: dict[int, list[float]] = {}
    for session, dense, pruned in zip(
        cell.session, getattr(cell, f"dense_{quantity}"), getattr(cell, quantity), strict=True
    ):
        found.setdefault(session, []).append(dense / pruned)
    return list(found.values())
