"""Downsampling: the control that shows the model a smaller picture of as many tokens."""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.crops import merge_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Encoder
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import shares
from trio_core.tensors import to_device


@dataclass(frozen=True, kw_only=True)
class Downsample(Method):
    """Average each crop's grid of patches into as many cells as its share of the budget, and project the means.

    What a method must beat to say more than "a smaller picture would have done". The tower still sees the whole
    picture: the saving that a picture really made smaller would have in the tower is not had.
    """

    name: ClassVar[str] = "downsample"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; means over a two-dimensional grid of cells",
        note="The tower's output is averaged, not the pixels, so that the count is met exactly and the tower runs "
        "whole; LLaVA-NeXT's newlines go.",
    )

    def select(self, view: View) -> Selection:
        """The same cells in every crop of the same size and share."""
        return merge_by_crop(view, _crop)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the means and of projecting them.

        A tower that projects its patches itself has done so, and their means are taken in the decoder's width.
        """
        if not shape.vision_hidden:  # a family that it does not run on
            return 0
        crops = shape.crops(sizes.visual)
        patches = sum(there * share for there, share in zip(crops, shares(sizes.budget, crops), strict=True))
        if shape.merged:
            return patches * shape.hidden
        return patches * shape.vision_hidden + sizes.budget * (shape.vision_hidden + shape.hidden) * shape.hidden


def _crop(encoder: Encoder, crop: int, patch: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    hidden = encoder.hidden[crop][patch]
    if not hidden.isfinite().all():
        raise OptionError("hidden states hold NaN or infinity: the encoder's output is broken")
    there = [divmod(number, encoder.grid[1]) for number in patch.tolist()]
    rows, columns = (len(set(axis)) for axis in zip(*there, strict=True))
    whole = rows * columns == len(patch)  # else no rectangle is left of the crop: runs of the raster order
    cell = cells(rows, columns, budget) if whole else cells(1, len(patch), budget)
    first = [cell.index(number) for number in range(budget)]
    stays, group = (to_device(torch.tensor(numbers), patch.device) for numbers in (first, cell))
    return stays, cluster_means(hidden, group, budget)


def cells(rows: int, columns: int, budget: int) -> list[int]:
    """The cell, 0 … budget − 1, of each patch of a grid in raster order; each is a rectangle of one patch at least.

    The grid is cut into r ≈ √(budget · rows / columns) bands of rows, as even as can be, and each band by columns into
    its share of the cells. Ours; there is no source.
    """
    if not 1 <= budget <= rows * columns:
        raise OptionError(f"budget {budget}: can keep 1 … {rows * columns} of {rows * columns} tokens")
    bands = min(max(round(sqrt(budget * rows / columns)), ceil(budget / columns)), rows, budget)
    starts = [band * budget // bands for band in range(bands + 1)]
    found: list[int] = []
    for row in range(rows):
        band = row * bands // rows
        start, wide = starts[band], starts[band + 1] - starts[band]
        found.extend(start + column * wide // columns for column in range(columns))
    return found
