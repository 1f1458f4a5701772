"""The counted work of one prefill, with and without the work of the selections."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity, exactly, over_dense

COUNTED_MACS = Quantity(
    name="counted_macs",
    label="MACs counted",
    gated="counted_macs",
    summarise=lambda record: record.counted and record.counted.torch_flops // 2,
    columns=(
        over_dense("MACs", "counted_macs"),
        exactly("counted", "counted_macs", entries.macs),
        Column("selection of MACs", lambda cell, _: entries.ratio(cell.selection_macs, cell.counted_macs)),
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
