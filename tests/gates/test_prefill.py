"""Our own gate: pruning does not become slower than in the base revision. `.github/workflows/gate.yml` runs it.

    pytest tests/gates -o addopts="" --trio-gate-base main

Ordinary runs skip it, because it times.
"""

import pytest


@pytest.mark.trio_gate(quantity="prefill_ms", max_ratio=1.03)
@pytest.mark.parametrize("method", ["trio", "divprune"])
def test_the_pruned_prefill_of_pocket(trio_gate, method: str):
    trio_gate("trio_profile.gate:prefill", method=method, retention=0.33)
