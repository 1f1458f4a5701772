"""What a method may look at when it chooses: the residual stream, the picture's place in it, and asked-for signals."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.layer import LayerCall, Readout
from trio_core.schedule import Schedule
from trio_core.tensors import HiddenBSD, MaskBS, PlacesBN, RowsBP, sent

Probe = Literal["next", "current"]
Rows = Literal["last", "shifted"]


class Signal(StrEnum):
    """What a method may ask of the model besides the residual stream; a class fact of the method (`Method.needs`)."""

    LAYERS = "layers"
    """The layer that has just run and the one that is next, to run again, whole or in part (`View.calls`)."""
    READOUT = "readout"
    """The final norm and the head, to run and to differentiate (`View.readout`)."""
    ENCODER = "encoder"
    """The vision tower's patches, as the projector reads them, and what is attended to among them (`View.encoder`)."""
    EMBEDDINGS = "embeddings"
    """What entered the decoder, picture and question apart (`View.embeddings`)."""
    NORM = "norm"
    """The decoder's final norm (`View.norm`)."""


@dataclass(frozen=True)
class Picture:
    """One sample's visual tokens at a stage.

    rows: [N] their places in the current sequence, ascending. number: [N] their numbers on the picture, 0 … V0 − 1.
    budget: how many may stay, 1 … N. text_after: tokens that follow the last of them. schedule: what the sample is due.
    """

    rows: Tensor
    number: Tensor
    budget: int
    text_after: int
    schedule: Schedule


@dataclass(frozen=True)
class Encoder:
    """The vision tower's output patch by patch, at the layer that the projector reads, of C crops of M patches each.

    Where pictures have sizes of their own, each lies at the upper left of a grid that holds all of them; the rest is
    zeros, for which no visual token stands. A tower that merges and projects its patches itself (Qwen's) shows the
    merged ones, which are the visual tokens, projected already.

    hidden: [C, M, D]. cls: [C, D], or None in a tower without a CLS token. attention: [C, H, M], for each head what
    the CLS token attends to in the layer that made `hidden`, CLS itself left out of the columns but not of the
    softmax's sum; without a CLS token what each patch receives, averaged over all of them. keys: [C, M, H, E] of that
    layer. last: [C, M], what the CLS token attends to in the tower's last layer, all heads taken as one, and [C, M, D],
    its keys; None without a CLS token. grid: rows and columns of a crop. places[b]: [V0] the patch behind each visual
    token, as crop · M + patch, and −1 where none is (a newline). project: the projector, [..., D] → [..., width of the
    decoder]. What costs anything is a function, computed when a method asks for it.
    """

    hidden: Tensor
    cls: Tensor | None
    attend: Callable[[], Tensor]
    keys: Tensor
    grid: tuple[int, int]
    places: tuple[Tensor, ...]
    project: Callable[[Tensor], Tensor]
    attend_last: Callable[[], tuple[Tensor, Tensor]] | None = None

    @cached_property
    def attention(self) -> Tensor:
        """[C, H, M], as above."""
        return self.attend()

    @cached_property
    def last(self) -> tuple[Tensor, Tensor] | None:
        """[C, M] and [C, M, D], as above."""
        return None if self.attend_last is None else self.attend_last()

    @property
    def patches(self) -> int:
        """M, of one crop."""
        return self.hidden.shape[1]

    def crops(self, sample: int) -> list[tuple[int, Tensor]]:
        """The crops of one sample in turn, each with the [n] indices of its visual tokens, newlines left out."""
        crop = torch.div(self.places[sample], self.patches, rounding_mode="floor").tolist()
        members: dict[int, list[int]] = {}
        for index, number in enumerate(crop):
            if number >= 0:
                members.setdefault(number, []).append(index)
        device = self.hidden.device
        return [(number, sent(torch.tensor(indices), device)) for number, indices in members.items()]

    def by_token(self, sample: int, values: Tensor) -> Tensor:
        """[C, M, …] by patch → [V0, …] by visual token of one sample; at a newline zero."""
        places = self.places[sample]
        return values.flatten(0, 1)[places.clamp_min(0)] * (places >= 0).view(-1, *[1] * (values.ndim - 2))

    def coordinates(self, sample: int) -> Tensor:
        """[V0, 3]: crop, row and column of each visual token of one sample; −1 at a newline."""
        places, columns = self.places[sample], self.grid[1]
        crop = torch.div(places, self.patches, rounding_mode="floor")
        patch = places - crop * self.patches
        row = torch.div(patch, columns, rounding_mode="floor")
        found = torch.stack([crop, row, patch - row * columns], dim=1)
        return found.where(places[:, None] >= 0, -1)


@dataclass(frozen=True)
class Embeddings:
    """What entered the decoder for one sample: [V0, D] its picture, and [T, D] the text behind it."""

    visual: Tensor
    text: Tensor
    _made: dict[Callable[[Tensor, Tensor], Tensor], Tensor] = field(default_factory=dict, repr=False, compare=False)

    def once(self, make: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """What `make` makes of picture and text; the later stages of a prefill get what the first one made."""
        if make not in self._made:
            self._made[make] = make(self.visual, self.text)
        return self._made[make]


@dataclass(frozen=True)
class View:
    """One stage, as a method sees it, for a whole batch.

    layer: 1-based; layers 1 … layer have run; 0 before the first. hidden: [B, S, D], what enters layer + 1.
    valid: [B, S], False at padding. padded: there is any. pictures: one a sample; where its budget is all it has,
    nothing is to be dropped. calls, readout, encoder, embeddings (one a sample), norm: there for a method that asks
    (`Signal`).
    """

    layer: int
    hidden: HiddenBSD
    valid: MaskBS
    padded: bool
    pictures: tuple[Picture, ...]
    calls: dict[str, LayerCall] = field(default_factory=dict)
    readout: Readout | None = None
    encoder: Encoder | None = None
    embeddings: tuple[Embeddings, ...] = ()
    norm: Callable[[Tensor], Tensor] | None = None

    def probed(self, probe: Probe) -> LayerCall:
        """The layer to probe: `next` looks ahead into layer + 1, `current` back at the layer that has just run.

        Raises OptionError before the first layer, where none has run.
        """
        if probe not in self.calls:
            raise OptionError(f"probe {probe!r} after layer {self.layer}: no layer has run there; probe the next one")
        return self.calls[probe]

    def supervised_rows(self, k_pos: int, rows: Rows) -> RowsBP:
        """[B, k_pos] places of the supervised rows: each sample's last k_pos tokens, or the k_pos before its last one.

        Raises OptionError where a sample has fewer text tokens after its picture than that.
        """
        if k_pos < 1:
            raise OptionError(f"k_pos {k_pos}: at least one row must be supervised")
        shift = 1 if rows == "shifted" else 0
        if k_pos + shift > (text := min(picture.text_after for picture in self.pictures)):
            raise OptionError(
                f"k_pos {k_pos} with rows {rows!r} reaches past the {text} text tokens after a picture: lower it"
            )
        shifted = last_rows(self.valid, k_pos + shift, padded=self.padded)
        return shifted[:, :k_pos]

    @cached_property
    def visual(self) -> PlacesBN:
        """[B, N] places of the visual tokens; where a picture is smaller than the largest, its last place repeated."""
        rows = [picture.rows for picture in self.pictures]
        most = max(len(places) for places in rows)
        return torch.stack([torch.cat([r, r[-1:].expand(most - len(r))]) if len(r) < most else r for r in rows])

    def features(self, sample: int) -> Tensor:
        """[N, D]: the rows of `hidden` at one sample's visual tokens."""
        return self.hidden[sample, self.pictures[sample].rows]


def last_rows(valid: MaskBS, count: int, *, padded: bool) -> RowsBP:
    """[B, count] places of each sample's last `count` tokens. valid: False at padding; padded: there is any."""
    back = torch.arange(count - 1, -1, -1, device=valid.device)
    if not padded:
        return (valid.shape[1] - 1 - back).expand(len(valid), -1)
    # The count of valid tokens up to each place; a sample's last token is the first place to reach the total.
    seen = valid.long().cumsum(dim=1)
    return torch.searchsorted(seen, seen[:, -1:] - back)


@dataclass(frozen=True)
class Selection:
    """A method's choice: for each sample, ascending indices into its current visual tokens, and the scores behind.

    features[b]: [K, D] what stands at the kept tokens' places from now on, of a method that merges; else they stay.
    schedules[b]: what each sample is due instead, of a method that plans anew; `kept` follows its budget at this stage.
    """

    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None = None
    features: tuple[Tensor, ...] | None = None
    schedules: tuple[Schedule, ...] | None = None
