"""The work by the paper's formula on visual tokens, F_inf + F_ov, and the counted overhead factor."""

from trio_profile import units
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column, Quantity, exactly, over_dense
from trio_profile.quantities.summary import CellSummary


def _overhead_factor(cell: CellSummary) -> Entry:
    """Return the counted overhead factor, with the γ of the formula as a tooltip."""
    if cell.gamma is None or cell.gamma.counted is None:
        return NOTHING
    title = f"counted; the formula takes γ = {units.plain(cell.gamma.assumed)}"
    return Entry(units.factor(cell.gamma.counted), title=title)


FASTV_MACS = Quantity(
    name="fastv_macs",
    label="MACs by formula",
    gated="fastv_macs",
    summarise=lambda record: record.fastv_macs,
    columns=(
        over_dense("f(n)", "fastv_macs"),
        exactly("by formula", "fastv_macs", entries.macs),
        Column("overhead factor", lambda cell, _: _overhead_factor(cell)),
    ),
)
