"""The visual tokens that the stages of a cell keep, and the share of all tokens that they are."""

from trio_profile import units
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column, Quantity
from trio_profile.quantities.summary import CellSummary


def _budgets(cell: CellSummary) -> Entry:
    if not cell.budgets:
        return NOTHING
    return Entry(", ".join(map(str, cell.budgets)), title=f"after layers {', '.join(map(str, cell.layers))}")


def _share(cell: CellSummary, name: str) -> Entry:
    return Entry(units.percent(getattr(cell.retention, name), 2)) if cell.retention else NOTHING


RETENTION = Quantity(
    name="retention",
    columns=(
        Column("of the layers", lambda cell, _: _share(cell, "layer_average")),
        Column("in the last layer", lambda cell, _: _share(cell, "final_layer")),
        Column("realised", lambda cell, _: _share(cell, "realised")),
    ),
)
BUDGETS = Quantity(
    name="budgets",
    columns=(
        Column("tokens kept", lambda cell, _: _budgets(cell)),
        Column("after layers", lambda cell, _: Entry(", ".join(map(str, cell.layers)))),
    ),
)
