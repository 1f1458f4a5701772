"""The CPU time of one prefill, all threads together. It is not known on a GPU."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity, dense_and_pruned

CPU_MS = Quantity(
    name="cpu_ms",
    phase="prefill",
    speedup="cpu_speedup",
    columns=(
        *dense_and_pruned("CPU time", "cpu_ms"),
        Column("CPU time ratio", lambda cell, _: entries.speedup(cell.cpu_speedup)),
    ),
)
