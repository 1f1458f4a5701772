"""The time of prefill and decoding together, and its speed-up over dense."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity, dense_and_pruned

TOTAL_MS = Quantity(
    name="total_ms",
    label="Total time",
    phase="generation",
    speedup="total_speedup",
    columns=(
        Column("total", lambda cell, _: entries.speedup(cell.total_speedup)),
        *dense_and_pruned("total", "total_ms"),
    ),
)
