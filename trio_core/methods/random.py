"""Random pruning: the control that a method must beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Selection, View
from trio_core.tensors import KeptK, to_device


@dataclass(frozen=True, kw_only=True)
class Random(Method):
    """Keep a uniformly random subset of the tokens.

    seed: the draw depends on the seed, the layer and the number of tokens alone.
    """

    seed: int = 0

    name: ClassVar[str] = "random"
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; uniform sampling without replacement",
        kind="control",
        note="EPIC and LightCompress draw from the global random generator. Here each draw has a seed of its own.",
    )

    def select(self, view: View) -> Selection:
        """Draw each sample's tokens from its own generator."""
        draws = (self._draw(view.layer, len(sample.rows), sample.budget) for sample in view.samples)
        return Selection(tuple(to_device(draw, view.hidden.device) for draw in draws))

    def _draw(self, layer: int, count: int, budget: int) -> KeptK:
        """[K] of `count` indices, ascending, on the CPU."""
        generator = torch.Generator().manual_seed(((self.seed * 1_000_003 + layer) * 1_000_003 + count) % 2**63)
        return torch.randperm(count, generator=generator)[:budget].sort().values
