"""What a method may look at when it chooses: the residual stream, the picture's place in it, and asked-for signals."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS, RowsBP

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


Readout = Callable[[HiddenBSD], LogitsBPV]
"""The model's final norm and head: [B, P, D] → [B, P, V]."""


@dataclass(frozen=True)
class AttentionLayer:
    """A decoder layer taken apart at its own submodules, so that some of its rows can be computed without the others.

    query, key: normed rows [B, S, D] → heads [B, S, heads, E], before rotary, with the model's biases and head norms.
    value_weight: [key_heads · E, D] and value_bias: [key_heads · E] or None. output: attended rows [B, P, heads · E] →
    [B, P, D]. finish: (residual rows, attention's output) → the layer's output rows, FFN included.
    scaling: of the scores. softcap: tanh limit of the scores, None where there is none.
    """

    norm: Callable[[Tensor], Tensor]
    query: Callable[[Tensor], Tensor]
    key: Callable[[Tensor], Tensor]
    value_weight: Tensor
    value_bias: Tensor | None
    output: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor, Tensor], Tensor]
    key_heads: int
    scaling: float
    softcap: float | None = None


@dataclass(frozen=True)
class LayerCall:
    """A decoder layer on the residual stream that enters it, with the masks and positions of that moment.

    run: [B, S, D] in, [B, S, D] out; no cache is written and no hook runs. attention: the layer taken apart.
    rotary: cosines and sines [B or 1, S, E]. mask: what the layer was given; None is plainly causal.
    """

    hidden: HiddenBSD
    run: Callable[[HiddenBSD], HiddenBSD]
    attention: Callable[[], AttentionLayer]
    rotary: tuple[Tensor, Tensor]
    mask: Tensor | None


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

    def features(self, sample: int) -> Tensor:
        """[N, D]: the rows of `hidden` at one sample's visual tokens."""
        return self.hidden[sample, self.pictures[sample].rows]


@dataclass(frozen=True)
class Selection:
    """A method's choice: for each sample, ascending indices into its current visual tokens, and the scores behind."""

    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None = None
