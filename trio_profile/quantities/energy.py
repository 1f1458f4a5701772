"""The energy of a prefill and of a decoded token, above that of the idle GPU. It is measured once."""

from trio_profile import units
from trio_profile.quantities.entries import Entry
from trio_profile.quantities.quantity import Column, Quantity
from trio_profile.quantities.summary import CellSummary, DenseSummary


def _joules(summary: CellSummary | DenseSummary | None) -> Entry:
    """Return the joules of a prefill; without a measurement a dash that says why."""
    energy = summary.energy if summary else None
    if energy is None or energy.prefill_j is None:
        return Entry("–", title=(energy.reason or "") if energy else "")
    return Entry(units.joules(energy.prefill_j))


ENERGY = Quantity(name="energy", summarise=lambda record: record.energy)
ENERGY_J = Quantity(
    name="energy_j",
    label="Energy of a prefill",
    cost=lambda summary: summary.energy.prefill_j if summary.energy else None,
    exact=False,
    columns=(
        Column("energy of dense", lambda _, dense: _joules(dense)),
        Column("energy pruned", lambda cell, _: _joules(cell)),
    ),
)
