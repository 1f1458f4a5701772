"""What a method sees at a stage, and what it returns: View and Selection."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.models.encoder import Encoder
from trio_core.rules.attention import LayerCall, Readout
from trio_core.rules.schedule import Schedule
from trio_core.tensors import FeaturesND, HiddenBSD, MaskBS, PlacesBN, RowsBP

Probe = Literal["next", "current"]
Rows = Literal["last", "shifted"]


class Signal(StrEnum):
    """What a method asks of the model besides the residual stream. A method declares its signals in `Method.needs`."""

    LAYERS = "layers"
    """The layer that has just run and the next one, to run again in whole or in part (`View.probed`)."""
    READOUT = "readout"
    """The final norm and the head, to run and to differentiate (`View.readout`)."""
    ENCODER = "encoder"
    """The vision tower's patches as the projector reads them, and their attention (`View.encoder`)."""
    EMBEDDINGS = "embeddings"
    """What entered the decoder, picture and question apart (`View.embeddings`)."""
    NORM = "norm"
    """The decoder's final norm (`View.norm`)."""


@dataclass(frozen=True)
class Picture:
    """The visual tokens of one sample at a stage. N are left of the V0 that entered the decoder.

    rows: [N], their places in the current sequence, ascending.
    number: [N], their numbers on the picture, 0 … V0 − 1.
    budget: how many of them to keep at this stage, 1 … N (VTW keeps 0).
    text_after: how many tokens follow the last visual token.
    schedule: the stages and budgets planned for the sample.
    """

    rows: Tensor
    number: Tensor
    budget: int
    text_after: int
    schedule: Schedule


@dataclass(frozen=True)
class Embeddings:
    """What entered the decoder for one sample.

    visual: [V0, D], its picture.
    text: [T, D], the text after the picture.
    """

    visual: Tensor
    text: Tensor
    _made: dict[Callable[[Tensor, Tensor], Tensor], Tensor] = field(default_factory=dict, repr=False, compare=False)

    def once(self, make: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`make(visual, text)`, computed once a prefill. Later stages get the tensor of the first."""
        if make not in self._made:
            self._made[make] = make(self.visual, self.text)
        return self._made[make]


@dataclass(frozen=True)
class View:
    """One stage as a method sees it, for a whole batch. B samples, S tokens in the sequence, D width.

    layer: how many decoder layers have run; 0 before the first.
    hidden: [B, S, D], the input of the next layer.
    valid: [B, S], False at padding.
    padded: whether the batch contains padding.
    pictures: one for each sample. A picture whose budget is all of its tokens keeps them all.
    signals: what the method declared in `needs`; read it through the properties below. They raise OptionError for a
        signal that the method did not declare.
    """

    layer: int
    hidden: HiddenBSD
    valid: MaskBS
    padded: bool
    pictures: tuple[Picture, ...]
    signals: dict[Signal, Any] = field(default_factory=dict)

    @property
    def samples(self) -> "Iterator[Sample]":
        """The samples of the batch in order, each with its picture."""
        return (Sample(self, index, picture) for index, picture in enumerate(self.pictures))

    @property
    def readout(self) -> Readout:
        """Final norm and head: [B, P, D] → [B, P, vocabulary]. Needs Signal.READOUT."""
        return self._signal(Signal.READOUT)

    @property
    def norm(self) -> Callable[[Tensor], Tensor]:
        """The decoder's final norm: [..., D] → [..., D]. Needs Signal.NORM."""
        return self._signal(Signal.NORM)

    @property
    def embeddings(self) -> Sequence[Embeddings]:
        """What entered the decoder, for each sample. Needs Signal.EMBEDDINGS."""
        return self._signal(Signal.EMBEDDINGS)

    @property
    def encoder(self) -> Encoder:
        """The vision tower's patches. Needs Signal.ENCODER, and is there before the first layer only."""
        return self._signal(Signal.ENCODER)

    def probed(self, probe: Probe) -> LayerCall:
        """The layer to probe: `next` has not run yet, `current` has just run. Needs Signal.LAYERS.

        Raises OptionError for `current` before the first layer.
        """
        calls = self._signal(Signal.LAYERS)
        if probe not in calls:
            raise OptionError(f"probe {probe!r} after layer {self.layer}: no layer has run there; probe the next one")
        return calls[probe]

    def _signal(self, signal: Signal) -> Any:
        if signal in self.signals:
            return self.signals[signal]
        if signal is Signal.ENCODER and self.layer > 0:
            raise OptionError(
                f"view.encoder after layer {self.layer}: the tower's patches are there before the first layer only"
            )
        raise OptionError(
            f"the method asks for {signal.value} and did not declare it: declare Signal.{signal.name} in its `needs`"
        )

    def supervised_rows(self, k_pos: int, rows: Rows) -> RowsBP:
        """[B, k_pos], places of the supervised rows.

        rows: `last` for the last k_pos tokens of each sample, `shifted` for the k_pos tokens before its last one.

        Raises OptionError where a sample has fewer text tokens after its picture.
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
        """[B, N], places of the visual tokens. A smaller picture repeats its last place."""
        rows = [picture.rows for picture in self.pictures]
        most = max(len(places) for places in rows)
        return torch.stack([torch.cat([r, r[-1:].expand(most - len(r))]) if len(r) < most else r for r in rows])

    def features(self, sample: int) -> FeaturesND:
        """[N, D]: the rows of `hidden` at one sample's visual tokens."""
        return self.hidden[sample, self.pictures[sample].rows]


@dataclass(frozen=True)
class Sample:
    """One sample of a View: its picture, and what the view holds of it.

    index: its place in the batch, 0 … B − 1.
    """

    view: View
    index: int
    picture: Picture

    @property
    def rows(self) -> Tensor:
        """[N], places of its visual tokens in the sequence, ascending."""
        return self.picture.rows

    @property
    def budget(self) -> int:
        """How many of its N visual tokens to keep at this stage."""
        return self.picture.budget

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is to be dropped from its picture."""
        return self.picture.budget == len(self.picture.rows)

    @property
    def features(self) -> FeaturesND:
        """[N, D]: the input of the next layer at its visual tokens."""
        return self.view.features(self.index)

    @property
    def text_rows(self) -> Tensor:
        """[T], places of the text after its picture, ascending."""
        valid = self.view.valid[self.index : self.index + 1]
        return last_rows(valid, self.picture.text_after, padded=self.view.padded)[0]


def last_rows(valid: MaskBS, count: int, *, padded: bool) -> RowsBP:
    """[B, count], places of each sample's last `count` tokens.

    valid: [B, S], False at padding. padded: whether there is any padding.
    """
    back = torch.arange(count - 1, -1, -1, device=valid.device)
    if not padded:
        return (valid.shape[1] - 1 - back).expand(len(valid), -1)
    # The number of valid tokens up to each place; a sample's last token is the first place that reaches the total.
    seen = valid.long().cumsum(dim=1)
    return torch.searchsorted(seen, seen[:, -1:] - back)


@dataclass(frozen=True)
class Selection:
    """What a method keeps at a stage.

    kept[b]: [K], ascending indices into sample b's N visual tokens; K is its budget.
    scores[b]: [N], the scores behind the selection; None where the method does not score.
    features[b]: [K, D], what a merging method puts at the kept places; None where the tokens stay as they are.
    """

    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None = None
    features: tuple[Tensor, ...] | None = None
