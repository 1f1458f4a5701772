"""Uniform grid: the control that knows nothing of the picture."""

from dataclasses import dataclass
from math import ceil, isqrt, sqrt
from typing import ClassVar, Literal

import torch

from trio_core.errors import OptionError
from trio_core.methods.method import Method, Reference
from trio_core.methods.view import Picture, Selection, View
from trio_core.rules.selection import stride
from trio_core.tensors import KeptK, to_device


@dataclass(frozen=True, kw_only=True)
class Grid(Method):
    """Keep every (N / K)-th of the current visual tokens in raster order: floor((i + ½) · N / K).

    shape: `stride`, as above; `square` keeps the centres of a two-dimensional grid where all of a picture's tokens are
    there and make a square, and else the stride: at later stages, and in pictures of other sizes.
    """

    shape: Literal["stride", "square"] = "stride"

    name: ClassVar[str] = "grid"
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; a one-dimensional stride over the raster order",
        note="At a later stage the stride runs over the tokens that the earlier one kept.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape not in ("stride", "square"):
            raise OptionError(f"shape {self.shape!r}: choose stride or square")

    def select(self, view: View) -> Selection:
        """The same places for every sample of the same length."""
        return Selection(tuple(to_device(self._places(picture), view.hidden.device) for picture in view.pictures))

    def _places(self, picture: Picture) -> KeptK:
        count = len(picture.rows)
        side = isqrt(count)
        if self.shape == "square" and count == picture.schedule.visual_tokens == side * side:
            return centres(side, side, picture.budget)
        return stride(count, picture.budget)


def centres(rows: int, columns: int, budget: int) -> KeptK:
    """The raster places of a grid's points: rows floor((i + ½) · H / r), in each columns floor((j + ½) · W / c).

    r ≈ √(budget · H / W) rows, of as many points as each other or one more, so that every budget is met: 64 of 24 × 24
    are 8 × 8, 144 are 12 × 12, 128 eleven rows of 11 or 12. [methods.md, card 10], where r · c ≤ budget. On the CPU.
    """
    if not 1 <= budget <= rows * columns:
        raise OptionError(f"budget {budget}: can keep 1 … {rows * columns} of {rows * columns} tokens")
    lines = min(max(round(sqrt(budget * rows / columns)), ceil(budget / columns)), rows, budget)
    places: list[int] = []
    for line in range(lines):
        points = (line + 1) * budget // lines - line * budget // lines
        start = (2 * line + 1) * rows // (2 * lines) * columns
        places.extend(start + (2 * point + 1) * columns // (2 * points) for point in range(points))
    return torch.tensor(places)
