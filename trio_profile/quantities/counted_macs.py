"""The counted work of one prefill, with and without the work of the selections."""

from trio_profile import units
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column, Quantity, exactly
from trio_profile.quantities.summary import CellSummary


def selection_share(cell: CellSummary) -> float | None:
    """Return the share of a cell's counted work that is selection."""
    if not cell.counted_macs or cell.selection_macs is None:
        return None
    return cell.selection_macs / cell.counted_macs


def without_selection(cell: CellSummary) -> int | None:
    """Return the counted MACs of a cell without those of its selection."""
    return None if cell.counted_macs is None else cell.counted_macs - (cell.selection_macs or 0)


def _selection(cell: CellSummary) -> Entry:
    share = selection_share(cell)
    if share is None:
        return NOTHING
    return Entry(units.percent(share), title=f"{units.exact(cell.selection_macs or 0)} MACs")


COUNTED_MACS = Quantity(
    name="counted_macs",
    label="MACs counted",
    gated="counted_macs",
    summarise=lambda record: record.counted and record.counted.torch_flops // 2,
    columns=(
        Column("MACs", lambda cell, dense: entries.ratio(cell.counted_macs, dense and dense.counted_macs, 0)),
        exactly("counted", "counted_macs", entries.macs),
        Column(
            "counted within",
            lambda cell, dense: entries.ratio(cell.counted_macs, dense and dense.counted_macs),
            "MACs",
        ),
        Column("selection of counted", lambda cell, _: _selection(cell), "selection"),
        Column(
            "MACs without selection",
            lambda cell, dense: entries.ratio(without_selection(cell), dense and dense.counted_macs),
        ),
        Column(
            "selection of dense",
            lambda cell, dense: entries.ratio(cell.selection_macs or 0, dense and dense.counted_macs),
            "selection",
        ),
    ),
)
FVCORE_MACS = Quantity(
    name="fvcore_macs",
    summarise=lambda record: record.counted and record.counted.fvcore_macs,
    columns=(exactly("fvcore", "fvcore_macs", entries.macs),),
)
UNCOUNTED = Quantity(
    name="uncounted",
    gated="uncounted_operators",  # work without a formula would otherwise look like saved work
    summarise=lambda record: record.counted.uncounted if record.counted else (),
)
