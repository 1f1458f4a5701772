"""What a method may look at when it chooses: the residual stream, the picture's place in it, and asked-for signals."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.layer import LayerCall, Readout
from trio_core.tensors import HiddenBSD, MaskBS, PlacesBN, RowsBP

Probe = Literal["next", "current"]
Rows = Literal["last", "shifted"]


class Signal(StrEnum):
    """What a method may ask of the model besides the residual stream; a class fact of the method (`Method.needs`)."""

    READOUT = "readout"
    """The probed layer, the final norm and the head, to run and to differentiate."""


@dataclass(frozen=True)
class Picture:
    """One sample's visual tokens at a stage.

    rows: [N] their places in the current sequence, ascending. number: [N] their numbers on the picture, 0 … V0 − 1.
    budget: how many may stay, 1 … N.
    """

    rows: Tensor
    number: Tensor
    budget: int


@dataclass(frozen=True)
class View:
    """One stage, as a method sees it, for a whole batch.

    layer: 1-based; layers 1 … layer have run. hidden: [B, S, D], the residual stream that enters layer + 1.
    valid: [B, S], False at padding. pictures: one a sample; where its budget is all it has, nothing is to be dropped.
    """

    layer: int
    hidden: HiddenBSD
    valid: MaskBS
    pictures: tuple[Picture, ...]
    readout: Readout | None = None
    """[B, P, D] → [B, P, V]: the model's final norm and head. Present when asked for (`Signal.READOUT`)."""
    calls: dict[str, LayerCall] = field(default_factory=dict)

    def probed(self, probe: Probe) -> LayerCall:
        """The layer to probe: `next` looks ahead into layer + 1, `current` back at the layer that has just run."""
        return self.calls[probe]

    def supervised_rows(self, k_pos: int, rows: Rows) -> RowsBP:
        """[B, k_pos] places of the supervised rows: each sample's last k_pos tokens, or the k_pos before its last one.

        Raises OptionError where a sample has fewer text tokens after its picture than that.
        """
        if k_pos < 1:
            raise OptionError(f"k_pos {k_pos}: at least one row must be supervised")
        # The count of valid tokens up to each place; a sample's last token is the first place to reach the total.
        seen = self.valid.long().cumsum(dim=1)
        back = torch.arange(k_pos - 1, -1, -1, device=seen.device) + (1 if rows == "shifted" else 0)
        supervised = torch.searchsorted(seen, seen[:, -1:] - back)
        after_picture = torch.stack([picture.rows[-1] for picture in self.pictures]) + 1
        if (supervised[:, 0] < after_picture).any():
            text = min(int(valid[start:].sum()) for valid, start in zip(self.valid, after_picture, strict=True))
            raise OptionError(
                f"k_pos {k_pos} with rows {rows!r} reaches past the {text} text tokens after a picture: lower it"
            )
        return supervised

    @cached_property
    def visual(self) -> PlacesBN:
        """[B, N] places of the visual tokens; where a picture is smaller than the largest, its last place repeated."""
        rows = [picture.rows for picture in self.pictures]
        most = max(len(places) for places in rows)
        return torch.stack([torch.cat([r, r[-1:].expand(most - len(r))]) if len(r) < most else r for r in rows])

    def features(self, sample: int) -> Tensor:
        """[N, D]: the rows of `hidden` at one sample's visual tokens."""
        return self.hidden[sample, self.pictures[sample].rows]


@dataclass(frozen=True)
class Selection:
    """A method's choice: for each sample, ascending indices into its current visual tokens, and the scores behind."""

    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None = None
