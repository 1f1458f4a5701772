"""A stage as a method sees it (`View`, `Sample`, `Picture`), and its answer (`Selection`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from trio_core.errors import OptionError
from trio_core.models.encoder import Encoder
from trio_core.rules.attention import LayerCall, Readout, attention_row
from trio_core.rules.merging import cluster_means, joined
from trio_core.rules.schedule import Schedule
from trio_core.tensors import FeaturesND, HiddenBSD, MaskBS, Places, PlacesBN, RowsBP, ScoresN, widened

Probe = Literal["next", "current"]
Rows = Literal["last", "shifted"]


class Signal(StrEnum):
    """A signal that a method reads besides the hidden states. A method declares its signals in `Method.needs`."""

    LAYERS = "layers"
    """The layer that has just run and the next one, which a method may run again, whole or in parts (`View.probed`)."""
    READOUT = "readout"
    """The final norm and the head, which a method may run and differentiate (`View.readout`)."""
    ENCODER = "encoder"
    """The vision tower's patches, as the projector reads them, and their attention (`View.encoder`)."""
    EMBEDDINGS = "embeddings"
    """The embeddings that entered the decoder: the picture and the text after it (`View.embeddings`)."""
    PIXELS = "pixels"
    """The pixels before the vision tower, which `PixelMethod.keep_pixels` gets. The view has the choice it made."""
    NORM = "norm"
    """The decoder's final norm (`View.norm`)."""


@dataclass(frozen=True)
class Video:
    """A video of one sample: F frames of P visual tokens. With Qwen a frame is two pictures, which the tower merges.

    number: [F, P], the numbers of the tokens on the picture (`Picture.number`). Before the decoder,
        `sample.features[video.number]` is [F, P, D]. A newline is in no frame.
    """

    number: Tensor


@dataclass(frozen=True)
class Picture:
    """The visual tokens of one sample at a stage. Of the V0 that entered the decoder, N are left.

    rows: [N], places of the tokens in the current sequence, ascending.
    number: [N], numbers of the tokens on the picture, 0 … V0 − 1, ascending.
    budget: how many tokens to keep at this stage, 1 … N (0 with VTW).
    text_after: how many tokens follow the last visual token.
    schedule: the stages and budgets planned for the sample.
    first: the place of the first token, if the batch has no padding and the tokens stand side by side. Otherwise None.
    videos: the videos among the V0 tokens, in their order. Empty where there are none or their frames are not known.
    """

    rows: Tensor
    number: Tensor
    budget: int
    text_after: int
    schedule: Schedule
    first: int | None = None
    videos: tuple[Video, ...] = ()

    def at_stage(self, layer: int, device: torch.device) -> "Picture":
        """The picture on a device, with the budget of the stage after `layer`."""
        rows, number = self.rows.to(device), self.number.to(device)
        return replace(self, rows=rows, number=number, budget=self.schedule.tokens_by_layer[layer])

    def of(self, values: Tensor) -> Tensor:
        """[N, …], the picture's rows of one sample's values [S, …].

        It may be a view of `values`: do not change it in place.
        """
        return values[self.rows] if self.first is None else values[self.first : self.first + len(self.rows)]


@dataclass(frozen=True)
class Embeddings:
    """The embeddings that entered the decoder for one sample. For a later stage: those that a stage at layer 0 left.

    visual: [V0, D], the picture.
    text: [T, D], the text after the picture.
    """

    visual: Tensor
    text: Tensor
    _made: dict[Callable[[Tensor, Tensor], Tensor], Tensor] = field(default_factory=dict, repr=False, compare=False)

    def once(self, make: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`make(visual, text)`. It is computed once a prefill; later calls return the same tensor.

        make: a function of (visual [V0, D], text [T, D]).
        """
        if make not in self._made:
            self._made[make] = make(self.visual, self.text)
        return self._made[make]


def supervised_count(k_pos: int, rows: Rows, text_after: int) -> int:
    """Return how many rows of a sample are supervised: k_pos, or what the text after its picture leaves.

    text_after: how many text tokens follow the picture.
    """
    return min(k_pos, text_after - int(rows == "shifted"))


@dataclass(frozen=True)
class View:
    """One stage as a method sees it, for a whole batch: B samples of S tokens, D wide.

    layer: how many decoder layers have run; 0 before the first.
    hidden: [B, S, D], the input of the next layer.
    valid: [B, S], False at padding.
    padded: whether the batch contains padding.
    pictures: the visual tokens of each sample.
    signals: what the method declared in `needs`. Read it through the properties and `probed`, which raise OptionError
        for a signal that the method did not declare.
    """

    layer: int
    hidden: HiddenBSD
    valid: MaskBS
    padded: bool
    pictures: tuple[Picture, ...]
    signals: dict[Signal, Any] = field(default_factory=dict)

    @property
    def samples(self) -> "Iterator[Sample]":
        """The samples of the batch, in order."""
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
        """[B], what entered the decoder for each sample. Needs Signal.EMBEDDINGS."""
        return self._signal(Signal.EMBEDDINGS)

    @property
    def encoder(self) -> Encoder:
        """The vision tower's patches, available before the first layer only. Needs Signal.ENCODER."""
        return self._signal(Signal.ENCODER)

    def probed(self, probe: Probe) -> LayerCall:
        """A layer beside the stage, with its input. Needs Signal.LAYERS.

        probe: `next` is the layer that runs next; `current` is the layer that has just run.

        Raises OptionError for `current` before the first layer.
        """
        calls = self._signal(Signal.LAYERS)
        if probe not in calls:
            raise OptionError(f"probe {probe!r} after layer {self.layer}: no layer has run there; probe the next one")
        if (device := calls[probe].hidden.device) != self.hidden.device:
            raise OptionError(
                f"probe {probe!r} after layer {self.layer}: that layer runs on {device} and the next one on "
                f"{self.hidden.device}; choose other layers, or another device_map"
            )
        return calls[probe]

    def _signal(self, signal: Signal) -> Any:
        """The value of a signal. Raises OptionError if the method did not declare it."""
        if signal in self.signals:
            return self.signals[signal]
        if signal is Signal.ENCODER and self.layer > 0:
            raise OptionError(
                f"view.encoder after layer {self.layer}: the tower's patches can be read before the first layer only"
            )
        raise OptionError(
            f"the method asks for {signal.value} and did not declare it: declare Signal.{signal.name} in its `needs`"
        )

    def attention_of_last(self, probe: Probe) -> tuple[ScoresN, ...]:
        """For each sample [N], what its last token attends to in a layer, averaged over the heads.

        probe: as in `probed`, whose errors this raises.
        """
        row_BS = attention_row(self.probed(probe), self._rows_at_end(1, 0), self.valid)
        return tuple(row_BS[sample.index, sample.rows] for sample in self.samples)

    def supervised_groups(self, k_pos: int, rows: Rows) -> Iterator[tuple[Places, tuple[int, ...], tuple[str, ...]]]:
        """Yield the supervised rows of each group of samples that have equally many: one group, if all have k_pos.

        A sample has fewer than k_pos rows if fewer text tokens follow its picture. Then the group has a note.

        k_pos: number of supervised rows.
        rows: `last` for the last k_pos tokens of each sample; `shifted` for the k_pos tokens before its last one.

        Yields the places of the rows, [B, P], which hold for the samples of the group; these samples' indices in the
        batch; and notes for the trace. The places are a slice if no sample is padded; `tensors.rows_at` takes both.
        Raises OptionError for a sample that has no such row.
        """
        counts = [supervised_count(k_pos, rows, picture.text_after) for picture in self.pictures]
        if min(counts) < 1:
            raise OptionError(
                f"k_pos {k_pos} with rows {rows!r}: too little text follows a picture to supervise a row of it: use "
                "rows 'last', or put the question after the picture"
            )
        for count in sorted(set(counts), reverse=True):
            samples = tuple(sample for sample, own in enumerate(counts) if own == count)
            few = f"k_pos {k_pos} with rows {rows!r}: only {count} supervised, because little text follows the picture"
            yield self._rows_at_end(count, int(rows == "shifted")), samples, () if count == k_pos else (few,)

    def _rows_at_end(self, count: int, shift: int) -> Places:
        """[B, count], places of each sample's last tokens, without the last `shift` ones."""
        if not self.padded:
            end = int(self.valid.shape[1]) - shift
            return slice(end - count, end)
        return last_rows(self.valid, count + shift, padded=True)[:, :count]

    @cached_property
    def visual_places(self) -> Places:
        """[B, N], places of the visual tokens. A slice if all samples have the same places, without gaps.

        Otherwise it is `visual`: a picture with fewer than N tokens repeats its last place.
        """
        places = {(picture.first, len(picture.rows)) for picture in self.pictures}
        if len(places) == 1 and (first := self.pictures[0].first) is not None:
            return slice(first, first + len(self.pictures[0].rows))
        return self.visual

    @cached_property
    def visual(self) -> PlacesBN:
        """[B, N], places of the visual tokens. A picture with fewer than N repeats its last place."""
        rows = [picture.rows for picture in self.pictures]
        most = max(len(places) for places in rows)
        return torch.stack([torch.cat([r, r[-1:].expand(most - len(r))]) if len(r) < most else r for r in rows])

    def merged(
        self, clusters: Sequence[tuple[Tensor, Tensor]], scores: tuple[Tensor, ...] | None = None
    ) -> "Selection":
        """The selection of each cluster's centre, at whose place the mean of the cluster stands.

        clusters: for each sample the centres, [K] ascending indices, and the cluster of each token, [N]: the number of
            its centre, or −1 for a token in no cluster.
        scores: those of the selection.
        """
        kept, labels = zip(*clusters, strict=True)
        means = tuple(cluster_means(s.features, labels[s.index], s.budget) for s in self.samples)
        return Selection(kept, scores, means, lambda: tuple(map(joined, kept, labels)))


@dataclass(frozen=True)
class Sample:
    """One sample of a View.

    view: the batch.
    index: index of the sample in the batch, 0 … B − 1.
    picture: the sample's visual tokens.
    """

    view: View
    index: int
    picture: Picture

    @property
    def rows(self) -> Tensor:
        """[N], places of the visual tokens in the sequence, ascending."""
        return self.picture.rows

    @property
    def budget(self) -> int:
        """How many of the N visual tokens to keep at this stage."""
        return self.picture.budget

    @property
    def keeps_all(self) -> bool:
        """Whether the budget is all of the visual tokens."""
        return self.picture.budget == len(self.picture.rows)

    @property
    def features(self) -> FeaturesND:
        """[N, D], a copy of the input of the next layer at the visual tokens."""
        return self.view.hidden[self.index, self.rows]

    @property
    def videos(self) -> tuple[Video, ...]:
        """The videos of the sample, in their order."""
        return self.picture.videos

    def by_frame(self, rule: Callable[[Tensor], Tensor], elsewhere: float) -> ScoresN:
        """[N], the scores that a rule gives to the tokens of each video, before the decoder.

        rule: [F, P, D] → [F, P].
        elsewhere: the score of tokens in no frame.

        The rule's input and the result are in float32, or in float64 for float64 inputs.
        """
        features = widened(self.features)
        scores = features.new_full((len(features),), elsewhere)
        for video in self.videos:
            scores[video.number] = rule(features[video.number])
        return scores

    @property
    def frame(self) -> Tensor:
        """[N], the frame of each visual token, counted over all videos of the sample; −1 for a token in no frame."""
        return self._in_videos(0)

    @property
    def place(self) -> Tensor:
        """[N], the place of each visual token in its frame, counted on from video to video; −1 for one in no frame."""
        return self._in_videos(1)

    def _in_videos(self, axis: int) -> Tensor:
        """[N], the frames (axis 0) or the places in a frame (axis 1) of all videos, counted on from video to video."""
        numbers, before = self.rows.new_full((self.picture.schedule.visual_tokens,), -1), 0
        for video in self.videos:
            count = video.number.shape[axis]
            own = torch.arange(before, before + count, device=numbers.device)
            numbers[video.number] = own if axis else own[:, None]
            before += count
        return numbers[self.picture.number]

    @property
    def text_rows(self) -> Tensor:
        """[T], places of the text after the picture, ascending."""
        valid = self.view.valid[self.index : self.index + 1]
        return last_rows(valid, self.picture.text_after, padded=self.view.padded)[0]


def last_rows(valid: MaskBS, count: int, *, padded: bool) -> RowsBP:
    """[B, count], places of each sample's last `count` tokens, ascending.

    valid: [B, S], False at padding.
    count: how many places.
    padded: whether `valid` contains padding.
    """
    back = torch.arange(count - 1, -1, -1, device=valid.device)
    if not padded:
        return (valid.shape[1] - 1 - back).expand(len(valid), -1)
    # How many tokens stand up to each place. A sample's last token is the first place where that is the total.
    tokens_up_to = valid.long().cumsum(dim=1)
    return torch.searchsorted(tokens_up_to, tokens_up_to[:, -1:] - back)


@dataclass(frozen=True)
class Selection:
    """The tokens that a method keeps at a stage.

    kept[b]: [K], indices into sample b's N visual tokens, ascending. K is the budget.
    scores[b]: [N], the scores behind the selection. None if the method does not score.
    features[b]: [K, D], what a merging method puts at the kept places. None if the kept tokens stay as they are.
    merged: returns for each sample [N], the index of the kept token that each token is part of now: its own index for a
        kept token, −1 for a token that merged into none. It is called only when someone asks the trace, so that a
        prefill does not pay for it. None if the method merges nothing, or if a token merges into several.
    notes: what readers of the trace should know of this stage. The trace has each note once.
    """

    kept: tuple[Tensor, ...]
    scores: tuple[Tensor, ...] | None = None
    features: tuple[Tensor, ...] | None = None
    merged: Callable[[], tuple[Tensor, ...]] | None = None
    notes: tuple[str, ...] = ()
