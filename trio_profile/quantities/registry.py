"""Every quantity and every column, found in the files of this folder."""

import importlib
import pkgutil

from trio_profile import quantities
from trio_profile.quantities.quantity import Column, Quantity
from trio_profile.quantities.summary import CellSummary


def _quantities() -> dict[str, Quantity]:
    """Return the quantities of all files, in the order of the fields in `--json`; those without a field come last."""
    modules = [
        importlib.import_module(f"{quantities.__name__}.{module.name}")
        for module in pkgutil.iter_modules(quantities.__path__)
        if module.name != "registry"
    ]
    members = [member for module in modules for member in vars(module).values() if isinstance(member, Quantity)]
    places = {name: place for place, name in enumerate(CellSummary.model_fields)}
    members.sort(key=lambda quantity: places.get(quantity.name, len(places)))
    return {quantity.name: quantity for quantity in members}


QUANTITIES: dict[str, Quantity] = _quantities()
"""All quantities by name."""
COLUMNS: dict[str, Column] = {column.name: column for quantity in QUANTITIES.values() for column in quantity.columns}
"""All columns by name."""
FURTHER: tuple[Quantity, ...] = tuple(
    quantity
    for name, quantity in QUANTITIES.items()
    if (quantity.summarise or quantity.phase) and name not in CellSummary.model_fields
)
"""The quantities without a field in CellSummary."""
