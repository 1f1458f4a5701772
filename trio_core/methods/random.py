"""Random pruning: the control that embarrasses methods."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, View
from trio_core.tensors import to_device


@dataclass(frozen=True, kw_only=True)
class Random(Method):
    """Keep a uniformly random subset, in raster order.

    seed: the draw depends on the seed, the layer and the number of tokens alone, so that a sample's choice is the same
    whatever batch it is in.
    """

    seed: int = 0

    name: ClassVar[str] = "random"
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; uniform sampling without replacement",
        note="EPIC and LightCompress draw from the global generator; here each draw has its own, seeded one.",
    )

    def select(self, view: View) -> Selection:
        """Draw each sample's tokens from its own generator."""
        return Selection(
            tuple(to_device(self._draw(view.layer, len(p.rows), p.budget), view.hidden.device) for p in view.pictures)
        )

    def _draw(self, layer: int, count: int, budget: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(((self.seed * 1_000_003 + layer) * 1_000_003 + count) % 2**63)
        return torch.randperm(count, generator=generator)[:budget].sort().values
