"""The time to the first token, and the time of each later token."""

from trio_profile.quantities.quantity import Quantity, dense_and_pruned

TTFT_MS = Quantity(name="ttft_ms", phase="generation", columns=dense_and_pruned("first token", "ttft_ms"))
TPOT_MS = Quantity(name="tpot_ms", phase="generation", columns=dense_and_pruned("later token", "tpot_ms"))
