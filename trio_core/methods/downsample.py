"""Downsampling: the control that shows the model a smaller picture, with as many tokens as a method keeps."""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar

import torch

from trio_core.methods.crops import Crop, MergedCrop, merge_by_crop
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.checks import check_budget, check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.schedule import shares
from trio_core.tensors import to_device


@dataclass(frozen=True, kw_only=True)
class Downsample(Method):
    """Average each crop's patches over a grid of cells, one cell for each token of its budget.

    A method that does not beat it says no more than "a smaller picture would have done". The tower still sees the whole
    picture, so that the tower saves nothing. Each crop keeps an equal share. A mean stands at the place of the first
    patch of its cell.
    """

    name: ClassVar[str] = "downsample"
    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.ENCODER})
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; means over a two-dimensional grid of cells",
        kind="control",
        note="It averages the tower's output, not the pixels. So the number of tokens is met exactly, but the tower "
        "does all of its work. On LLaVA-NeXT newline tokens are dropped.",
    )

    def select(self, view: View) -> Selection:
        """Average crop by crop in the tower's features, then project the means."""
        return merge_by_crop(view, _crop)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the means, and of projecting them.

        A tower that projects its patches itself averages them in the decoder's width, and projects nothing here.
        """
        if not shape.vision_hidden:  # a family whose tower is not read
            return 0
        crops = shape.crops(sizes.visual)
        pairs = sum(patches * share for patches, share in zip(crops, shares(sizes.budget, crops), strict=True))
        return pairs * shape.patch_width + shape.projection_macs(sizes.budget)


def _crop(crop: Crop) -> MergedCrop:
    """The first patch of each cell, and the cells' means."""
    hidden = crop.hidden
    check_finite("hidden states", hidden)
    columns = crop.encoder.grid[1]
    positions = [divmod(patch, columns) for patch in crop.patches.tolist()]
    height, width = (len(set(axis)) for axis in zip(*positions, strict=True))
    is_rectangle = height * width == len(positions)  # else the cells are runs of the raster order
    cell = grid_cells(height, width, crop.budget) if is_rectangle else grid_cells(1, len(positions), crop.budget)
    first_patch = [cell.index(number) for number in range(crop.budget)]
    indices, labels = (to_device(torch.tensor(numbers), hidden.device) for numbers in (first_patch, cell))
    return MergedCrop(indices, cluster_means(hidden, labels, crop.budget), lambda: labels)


def grid_cells(rows: int, columns: int, budget: int) -> list[int]:
    """The cell of each patch of a grid, 0 … K − 1, in raster order. Each cell is a rectangle of one patch or more.

    The grid is cut into r ≈ √(K · H / W) bands of rows, as even as can be. Each band is cut by columns into its share
    of the cells. The rule is ours.

    rows, columns: H and W.
    budget: K, 1 … H · W.

    Raises OptionError for a budget out of range.
    """
    check_budget(budget, rows * columns)
    bands = min(max(round(sqrt(budget * rows / columns)), ceil(budget / columns)), rows, budget)
    starts = [band * budget // bands for band in range(bands + 1)]
    cells: list[int] = []
    for row in range(rows):
        band = row * bands // rows
        start, count = starts[band], starts[band + 1] - starts[band]
        cells.extend(start + column * count // columns for column in range(columns))
    return cells
