"""The two records of this folder: a quantity, and a column of a table of cells."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trio_profile.quantities import entries
from trio_profile.quantities.entries import Entry
from trio_profile.quantities.summary import CellSummary, DenseSummary
from trio_profile.records.schema import Dense, Measurement


@dataclass(frozen=True)
class Column:
    """One column of a table of cells.

    name: its head. Tables list the column by it, and no two columns have the same name.
    entry: makes the entry of a cell from its CellSummary and the dense model's summary. The latter is None if the dense
        model was not measured.
    of_dense: makes the entry of the dense model; None for a dash.
    needs_answers: whether a table leaves it out if no right answers are known.
    """

    name: str
    entry: Callable[[Any, DenseSummary | None], Entry]
    of_dense: Callable[[Any], Entry] | None = None
    needs_answers: bool = False


@dataclass(frozen=True)
class Quantity:
    """One quantity of a cell.

    name: its field in `--json`. The last part says the unit.
    label: its name in the table of break-evens; empty if it has no break-even.
    columns: the columns that show it.
    measure: measures an exact value from a Workload and a method, which is None for the dense model. Records keep the
        value in `further`. It imports torch inside itself. None for a quantity that the engine measures otherwise.
    summarise: returns the value of a measurement, or of the dense model; with `measure` it need not be given. None for
        a time, because times are summarised over all cells together.
    phase: what is run to measure the time: a prefill or a whole generation. None for any other quantity.
    speedup: name of the speed-up of a time; empty if it has none.
    cost: returns the cost whose break-even is looked for; None for the value of the field `name`.
    gated: its name in a gate, which judges its exact value, of a tuple the length; empty if no gate does. A time with a
        break-even is judged by its ratio to dense.
    exact: whether the cost is exact. The noise of any other cost is not known, so its break-even has no interval.
    """

    name: str
    label: str = ""
    columns: tuple[Column, ...] = ()
    measure: Callable[[Any, Any], int | None] | None = None
    summarise: Callable[[Measurement | Dense], Any] | None = None
    phase: Literal["prefill", "generation"] | None = None
    speedup: str = ""
    gated: str = ""
    cost: Callable[[CellSummary | DenseSummary], float | None] | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        if self.measure and not self.summarise:
            object.__setattr__(self, "summarise", lambda record: (record.further or {}).get(self.name))

    def gated_value(self, record: Measurement | Dense) -> int | None:
        """Return the exact value that a gate judges; None if it is not known, or if no gate judges it."""
        value = self.summarise(record) if self.gated and self.summarise else None
        return len(value) if isinstance(value, tuple | list) else value

    def cost_of(self, summary: CellSummary | DenseSummary) -> float | None:
        """Return the cost of a cell or of the dense model; None if it is not known."""
        return getattr(summary, self.name) if self.cost is None else self.cost(summary)


def dense_and_pruned(words: str, time: str) -> tuple[Column, Column]:
    """Return the columns of a time in the dense runs, and in the pruned runs. words: the first ones of their names."""
    return (
        Column(f"{words} of dense", lambda cell, _: entries.milliseconds(getattr(cell, f"dense_{time}"))),
        Column(f"{words} pruned", lambda cell, _: entries.milliseconds(getattr(cell, time))),
    )


def over_dense(name: str, field: str, unit: str = "MACs", digits: int = 0) -> Column:
    """Return the column of an exact count as a share of the dense model's. field: of CellSummary and DenseSummary."""
    return Column(
        name, lambda cell, dense: entries.ratio(getattr(cell, field), getattr(dense, field, None), unit, digits)
    )


def exactly(name: str, field: str, entry: Callable[..., Entry]) -> Column:
    """Return the column of an exact count, which also has an entry for the dense model.

    field: of CellSummary and DenseSummary.
    entry: makes an entry from a count and, for its ratio to dense, from the count of the dense model.
    """

    def of_cell(cell: CellSummary, dense: DenseSummary | None) -> Entry:
        return entry(getattr(cell, field), getattr(dense, field) if dense else None)

    return Column(name, of_cell, of_dense=lambda dense: entry(getattr(dense, field)))
