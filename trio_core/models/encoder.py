"""A vision tower as methods see it (`Encoder`), and its record while it runs (`WatchedTower`).

A method that chooses before the tower has another tower: `ThinTower` in `qwen_tower.py`.

The tower runs its own attention kernel. Forward hooks record the queries and keys that its modules make. The rows of
attention that a method asks for are computed from these, so the tower never has to return an attention map.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.tensors import KeptK, ScoresN, to_device, wide_type

ONE_KIND = "methods that look into this tower take pictures or videos, not both in one batch"
"""Why a tower refuses a batch. It runs once for each kind, and we record the latest run."""
NO_PICTURE = (
    "no picture went through the vision tower in this forward: pass pixel_values with the prompt, and let generate() "
    "use a cache (without one each step is a prefill, and the tower runs in the first one only)"
)
"""Why nothing is known of a tower that did not run."""
_ROWS = 256
"""How many rows of attention `received_attention` holds at a time."""


@dataclass(frozen=True)
class Choice:
    """The visual tokens of one sample that go through the tower, chosen before it runs.

    kept: [K], their indices, ascending.
    scores: [N], of all tokens.
    """

    kept: KeptK
    scores: ScoresN


KeepPixels = Callable[[Sequence[Tensor], int], Choice]
"""A rule that makes the choice. It gets a sample's pictures, each [rows, columns, pixel values of a token], and K."""


@dataclass(frozen=True)
class Encoder:
    """The output of a vision tower, patch by patch, for C crops of M patches each.

    A crop is a picture, a tile of a picture or a frame of a video. Crops may have different sizes. Then M is that of
    the grid that holds each of them: a crop lies in the upper left of the grid, and the rest of the grid is zero.
    Qwen's tower merges and projects its patches itself. LLaVA-OneVision and LLaVA-NeXT-Video pool the patches of a
    video's frames. There a patch is a merged or pooled one behind the projector, that is, a visual token. Its keys and
    its attention are the means of those of its patches.

    hidden: [C, M, D], the patches as the projector reads them, or merged or pooled ones.
    cls: [C, D], the CLS token of that layer; None in a tower without one, and where patches are merged or pooled.
    attend: returns `attention`. It runs when a method first asks.
    keys: [C, M, H, E], the keys of the layer that made `hidden`, before rotary.
    grid: rows and columns of a crop.
    places: for each sample [V0], the patch of each visual token as crop · M + patch; −1 for a newline token.
    project: the projector, [..., D] → [..., width of the decoder].
    attend_last: returns `last`; None where `cls` is None.
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
        """[C, H, M]: for each head, how much attention each patch gets in the layer that made `hidden`.

        In a tower with a CLS token: the attention that it pays to each patch. Its attention to itself is left out, so a
        row sums to less than 1. In another one: the attention that a patch gets from all patches of its crop, averaged
        over them. So a whole crop gets 1 in all, and this says nothing of which crop matters.
        """
        return self.attend()

    @cached_property
    def last(self) -> tuple[Tensor, Tensor] | None:
        """The same from the tower's last layer, with all heads taken as one; None where `cls` is None.

        Returns [C, M], the CLS token's attention, and [C, M, D], the keys.
        """
        return None if self.attend_last is None else self.attend_last()

    @property
    def patches(self) -> int:
        """M, the patches of one crop."""
        return self.hidden.shape[1]

    def crops(self, sample: int) -> list[tuple[int, Tensor]]:
        """The crops of one sample in order, each with the indices [n] of its visual tokens. Newlines are in none."""
        crop_of_token = torch.div(self.places[sample], self.patches, rounding_mode="floor").tolist()
        members: dict[int, list[int]] = {}
        for token, crop in enumerate(crop_of_token):
            if crop >= 0:
                members.setdefault(crop, []).append(token)
        device = self.hidden.device
        return [(crop, to_device(torch.tensor(tokens), device)) for crop, tokens in members.items()]

    def by_token(self, sample: int, values: Tensor) -> Tensor:
        """Values by patch [C, M, …] → by visual token of one sample [V0, …]. A newline token gets zero."""
        places = self.places[sample]
        return values.flatten(0, 1)[places.clamp_min(0)] * (places >= 0).view(-1, *[1] * (values.ndim - 2))

    def attention_of(self, sample: int) -> Tensor:
        """[V0], `attention` averaged over heads, by visual token of one sample. A newline token gets zero."""
        return self.by_token(sample, self.attention.mean(dim=1))


class Tower:
    """A vision tower with hooks, and the record of these. This one has no hooks: it is for a method that needs none."""

    def __init__(self) -> None:
        self.recorded: dict[Any, Any] = {}
        """The record of the hooks in this forward of the model, by a name of ours."""
        self.copies = 1
        """How often generate() repeats each sample behind the tower: for beams, or for several answers."""

    def listen(self) -> list[Any]:
        """Register the hooks. Returns their handles, each with a `remove()`."""
        return []

    def expect(self, budgets: tuple[tuple[int, int], ...]) -> None:
        """Take the visual tokens and the budget of each sample whose pictures will go through the tower."""

    def take_entering(self, hidden: Tensor, rows: Sequence[Tensor]) -> None:
        """Take what enters the decoder, [B, S, D], and the places of each sample's visual tokens. Few need it."""

    def collect(self, visual_tokens: list[int]) -> Any:
        """The record of this forward, as a method reads it. It is empty afterwards.

        visual_tokens: for each sample of the batch, how many it has.
        """

    def forget(self) -> None:
        """Empty the record at the end of a forward, also of one that failed."""
        self.recorded, self.copies = {}, 1


class WatchedTower(Tower, ABC):
    """A tower that runs as it is. A subclass records what its modules put out and makes an Encoder of it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        """The names that the hooks of a whole tower record."""

    def collect(self, visual_tokens: list[int]) -> Encoder:
        """The Encoder of this forward. The record is empty afterwards.

        visual_tokens: for each sample of the batch, how many it has.

        Raises UnsupportedInput where no picture went through the tower in this forward, and UnsupportedModel where a
        module ran without its hooks.
        """
        if not self.recorded:
            raise UnsupportedInput(NO_PICTURE)
        if missing := self.names - self.recorded.keys():
            raise UnsupportedModel(
                f"the vision tower ran code that was compiled without prune()'s hooks, so its {sorted(missing)[0]!r} "
                "is not known: compile it in the context of one prune(), or not at all"
            )
        encoder = self.make_encoder(self.recorded, visual_tokens[:: self.copies])
        if self.copies > 1:
            encoder = replace(encoder, places=tuple(part for part in encoder.places for _ in range(self.copies)))
        self.forget()
        return encoder

    @abstractmethod
    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record. `visual_tokens` is as in `collect`."""

    def recorder(self, name: str) -> Callable[..., None]:
        """A forward hook that records a module's output under `name`."""
        self.names.add(name)

        def record(_module: nn.Module, _args: Any, output: Any) -> None:
            self.recorded[name] = output[0] if isinstance(output, tuple) else output

        return record


def received_attention(query_SHE: Tensor, key_SHE: Tensor, scaling: float) -> Tensor:
    """[S, H]: the attention that each patch gets from all patches, averaged over them, in at least float32.

    The rows are computed in blocks, so the whole attention map is never in memory.
    """
    key_HES = key_SHE.permute(1, 2, 0)
    total_HS = key_SHE.new_zeros(key_SHE.shape[1], len(key_SHE), dtype=wide_type(key_SHE))
    for block_HRE in query_SHE.transpose(0, 1).split(_ROWS, dim=1):
        total_HS += (block_HRE @ key_HES * scaling).to(total_HS.dtype).softmax(dim=-1).sum(dim=1)
    return total_HS.T / len(key_SHE)


def places_in_grids(frames: Sequence[tuple[int, int]], grid: tuple[int, int]) -> list[Tensor]:
    """For each frame its visual tokens' places in raster order, where frame i has the i-th of equal grids.

    frames: height and width of each, in visual tokens.
    grid: height and width that hold each frame.
    """
    rows, columns = grid
    return [
        ((number * rows + torch.arange(height)[:, None]) * columns + torch.arange(width)).flatten()
        for number, (height, width) in enumerate(frames)
    ]
