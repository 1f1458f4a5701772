"""A study as points of curves, for loggers that draw one number over another: a method's speed-up over retention.

The numbers are those of `table_rows`: a column becomes a quantity, and what names a row becomes the name of a curve.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from trio_profile.analysis.cells import DenseSummary
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.analysis.table_rows import OF_THE_STUDY, Flat, flat, rows_of
from trio_profile.errors import StudyError
from trio_profile.records.documents import Document

PER_MILLE = 1000
"""A retention of 0.222 is the step 222: steps are whole numbers."""
_NAMES = (
    *(("check",), ("method",), ("group",), ("variant", "options"), ("benchmark", "task")),
    *(("name",), ("where",), ("quantity",)),
)
"""The columns that name a row, in the order of a curve's name. Of a group, the first one that is not empty."""
_PLACES = {*OF_THE_STUDY, "layer", "nominal_retention", "retention_nominal"}
"""Columns that say what was asked, or where on the axis a row is."""


@dataclass(frozen=True)
class Point:
    """One number of a study.

    quantity: the column, as in docs/how-to/export.md: `prefill_speedup`, `prefill_speedup_low`.
    curve: what the row is about: `trio`, `trio k_pos 1`. Empty for a number of the whole study. A second row of the
        same name at the same step is `trio 2`.
    step: the retention in thousandths, or the decoder layer. 0 without either.
    value: the number. It is finite.
    """

    quantity: str
    curve: str
    step: int
    value: float


def points_of(document: Document, entries: str = "") -> list[Point]:
    """Return every number of a document. The exact quantities of the dense model are there once, without a curve.

    entries: as in `rows_of`. A document without rows has no points.
    """
    try:
        rows = rows_of(document, entries)
    except StudyError:  # a kind without a table
        return []
    dense = getattr(document, "dense", None)
    once = flat(DenseSummary, dense, "dense_") if isinstance(dense, DenseSummary) else {}
    taken: set[tuple[str, int]] = set()
    points: list[Point] = []
    for row in rows:
        curve, step = _curve(row), _step(row)
        name, number = curve, 1
        while (name, step) in taken:
            number += 1
            name = f"{curve} {number}".strip()
        taken.add((name, step))
        leave_out = {*_PLACES, *once, *(["retention"] if "layer" in row else [])}
        points += [Point(column, name, step, value) for column, value in _numbers(row) if column not in leave_out]
    points += [Point(name, "", 0, value) for name, value in _numbers(once)]
    return [*points, *_break_even(document)]


def _break_even(document: Document) -> Iterator[Point]:
    """Where each quantity of each method of a sweep breaks even, as a retention, with the ends of its interval."""
    if not isinstance(document, SweepDocument):
        return
    for method, quantities in document.break_even_by_method.items():
        for name, place in quantities.items():
            low, high = place.ci95 or (None, None)
            ends = {"": place.retention, "_low": low, "_high": high}
            for column, value in _numbers({f"{name}_break_even{end}": part for end, part in ends.items()}):
                yield Point(column, method, 0, value)


def _curve(row: Flat) -> str:
    """The name of a row's curve. The rows of one method over the retention have the same text.

    A row of a layer is one point over the layers, so its retention is a part of the text.
    """
    named = [next((str(row[name]) for name in group if row.get(name)), "") for group in _NAMES]
    if row.get("layer") is not None and row.get("retention") is not None:
        named.append(f"{row['retention']:g}")
    return " ".join(part for part in named if part)


def _step(row: Flat) -> int:
    """Where a row stands on the axis."""
    layer = row.get("layer")
    if isinstance(layer, int):
        return layer
    for name in ("nominal_retention", "retention"):
        retention = row.get(name)
        if isinstance(retention, int | float):
            return round(PER_MILLE * retention)
    return 0


def _numbers(row: Flat) -> Iterator[tuple[str, float]]:
    """The columns of a row that are finite numbers. True and False are none."""
    for name, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)
