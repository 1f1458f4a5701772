"""Downsampling: the control that shows the model a smaller picture, with as many tokens as a method keeps."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch

from trio_core.methods.crops import Crop, MergedCrop, MergingMethod
from trio_core.methods.method import Reference
from trio_core.rules.checks import check_finite
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.merging import cluster_means
from trio_core.rules.selection import band_starts
from trio_core.tensors import to_device


@dataclass(frozen=True, kw_only=True)
class Downsample(MergingMethod):
    """Average each crop's patches over a grid of cells, one cell for each token of its budget.

    A method that does not beat it says no more than "a smaller picture would have done". The tower saves nothing. Each
    crop keeps an equal share. A mean stands at the place of the first patch of its cell. Where the tower cannot be
    read, the tokens that enter the decoder are averaged.
    """

    name: ClassVar[str] = "downsample"
    grids_suffice: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; means over a two-dimensional grid of cells",
        kind="control",
        note="It averages the tower's output, not the pixels. So the number of tokens is met exactly, but the tower "
        "does all of its work.",
    )

    def merge(self, crop: Crop) -> MergedCrop:
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

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the means, and of projecting them.

        A tower that projects its patches itself averages them in the decoder's width, and projects nothing here. So
        does one that cannot be read, whose crops count as one.
        """
        if not shape.vision_hidden:
            return sizes.visual * sizes.budget * shape.hidden
        pairs = sum(patches * share for patches, share in shape.crop_shares(sizes.visual, sizes.budget))
        return pairs * shape.patch_width + shape.projection_macs(sizes.budget)


def grid_cells(rows: int, columns: int, budget: int) -> list[int]:
    """The cell of each patch of a grid, 0 … K − 1, in raster order. Each cell is a rectangle of one patch or more.

    The grid is cut into bands of rows (`band_starts`), and each band by columns into its share of the cells. The rule
    is ours.

    rows, columns: H and W.
    budget: K, 1 … H · W.

    Raises OptionError for a budget out of range.
    """
    bands = [*pairwise(band_starts(rows, columns, budget))]
    cells: list[int] = []
    for row in range(rows):
        start, end = bands[row * len(bands) // rows]
        cells.extend(start + column * (end - start) // columns for column in range(columns))
    return cells
