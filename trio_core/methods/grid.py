"""Uniform grid: the control that knows nothing of the picture."""

from dataclasses import dataclass
from typing import ClassVar

from trio_core.method import Method, Reference
from trio_core.selection import stride
from trio_core.view import Selection, View


@dataclass(frozen=True, kw_only=True)
class Grid(Method):
    """Keep every (N / K)-th of the current visual tokens in raster order: floor((i + ½) · N / K)."""

    name: ClassVar[str] = "grid"
    reference: ClassVar[Reference] = Reference(
        title="no canonical source; a one-dimensional stride over the raster order",
        note="At a later stage the stride runs over the tokens that the earlier one kept.",
    )

    def select(self, view: View) -> Selection:
        """The same stride for every sample of the same length."""
        return Selection(tuple(stride(len(p.rows), p.budget).to(view.hidden.device) for p in view.pictures))
