"""Uniform grid: the control that does not look at the picture."""

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import ClassVar, Literal

import torch

from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Picture, Selection, View
from trio_core.rules.selection import band_starts, stride
from trio_core.tensors import KeptK, to_device


@dataclass(frozen=True, kw_only=True)
class Grid(Method):
    """Keep tokens at even steps over the picture, row by row.

    In raster order these are the indices floor((i + ½) · N / K).

    shape: `stride` is this rule. `square` keeps the centres of a two-dimensional grid instead, where no token of the
        picture was dropped yet and their number is a square. At later stages, in other pictures and in videos it is
        the stride.
    """

    shape: Literal["stride", "square"] = "stride"

    name: ClassVar[str] = "grid"
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; a one-dimensional stride over the raster order",
        kind="control",
        note="At a later stage the stride runs over the tokens that the earlier stage kept.",
    )

    def select(self, view: View) -> Selection:
        """Samples of the same length keep the same indices."""
        grids = (self._indices(sample.picture) for sample in view.samples)
        return Selection(tuple(to_device(indices, view.hidden.device) for indices in grids))

    def _indices(self, picture: Picture) -> KeptK:
        count = len(picture.rows)
        side = isqrt(count)
        if self.shape == "square" and not picture.videos and count == picture.schedule.visual_tokens == side * side:
            return centres(side, side, picture.budget)
        return stride(count, picture.budget)


def centres(rows: int, columns: int, budget: int) -> KeptK:
    """The points of a two-dimensional grid as raster indices, [K] ascending, on the CPU.

    The points stand in r rows (`band_starts`), floor((i + ½) · H / r). A row of c points has them at the columns
    floor((j + ½) · W / c). Rows differ by one point at most, so that every budget is met. Of 24 × 24 tokens, 64 make
    8 rows of 8, 144 make 12 rows of 12, and 128 make eleven rows of 11 or 12.

    rows, columns: H and W.
    budget: K, 1 … H · W.

    Raises OptionError for a budget out of range.
    """
    lines = [last - first for first, last in pairwise(band_starts(rows, columns, budget))]
    indices: list[int] = []
    for line, points in enumerate(lines):
        start = (2 * line + 1) * rows // (2 * len(lines)) * columns
        indices.extend(start + (2 * point + 1) * columns // (2 * points) for point in range(points))
    return torch.tensor(indices)
