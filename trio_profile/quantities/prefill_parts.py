"""Parts of the time of a prefill: what the host needs to issue it, the vision tower, the projector, the selection."""

from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, Quantity, dense_and_pruned

HOST_MS = Quantity(name="host_ms", phase="prefill", columns=dense_and_pruned("host", "host_ms"))
VISION_MS = Quantity(name="vision_ms", phase="prefill")
PROJECTOR_MS = Quantity(name="projector_ms", phase="prefill")
SELECTION_MS = Quantity(
    name="selection_ms",
    phase="prefill",
    columns=(Column("selection", lambda cell, _: entries.milliseconds(cell.selection_ms)),),
)
