"""The time of one prefill, and its speed-up over dense."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity, dense_and_pruned

PREFILL_MS = Quantity(
    name="prefill_ms",
    label="Prefill time",
    phase="prefill",
    speedup="prefill_speedup",
    columns=(
        Column("prefill", lambda cell, _: entries.speedup(cell.prefill_speedup)),
        *dense_and_pruned("prefill", "prefill_ms"),
        Column("pairs", lambda cell, _: entries.pairs(cell.prefill_speedup)),
    ),
)
