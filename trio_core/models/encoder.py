"""A vision tower listened to: its patches as the projector reads them, and what is attended to among them.

The tower runs its own attention kernel; the rows that methods ask for are computed from the queries and keys that pass
by, so that no attention map is ever asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, cast

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.tensors import to_device


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
        return [(number, to_device(torch.tensor(indices), device)) for number, indices in members.items()]

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


class Tower(ABC):
    """A vision tower listened to. A subclass keeps what passes by and makes an Encoder of it."""

    def __init__(self) -> None:
        self.passing: dict[str, Any] = {}

    @abstractmethod
    def listen(self) -> list[Any]:
        """Begin to keep what passes by. Returns handles, each with a `remove()`."""

    def seen(self, visual_tokens: list[int]) -> Encoder:
        """What passed by, for a batch whose samples have so many visual tokens.

        Raises UnsupportedInput where no picture went through the tower in this forward.
        """
        if not self.passing:
            raise UnsupportedInput("no picture went through the vision tower: pass pixel_values with the prompt")
        encoder = self.encoder(self.passing, visual_tokens)
        self.passing = {}
        return encoder

    @abstractmethod
    def encoder(self, passed: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of what was kept."""

    def forget(self) -> None:
        """What passed by belongs to one forward, also to one that came to no choice."""
        self.passing = {}

    def keep(self, name: str) -> Callable[..., None]:
        """A forward hook that keeps a module's output under a name."""

        def kept(_module: nn.Module, _args: Any, output: Any) -> None:
            self.passing[name] = output[0] if isinstance(output, tuple) else output

        return kept


class ClipTower(Tower):
    """A CLIP tower, CLS first in every layer; each patch has a placeholder, in order.

    layer: the encoder layer whose output the projector reads. last: the tower's last layer, whose output it does not.
    project: the projector.
    """

    def __init__(self, layer: nn.Module, last: nn.Module, project: Callable[[Tensor], Tensor]):
        super().__init__()
        self.layer = layer
        self.last = last
        self.project = project

    def listen(self) -> list[Any]:
        """Keep the latest queries, keys and output of the layer, and queries and keys of the last one."""
        attention, last = (cast(Any, layer).self_attn for layer in (self.layer, self.last))
        modules = {
            "query": attention.q_proj,
            "key": attention.k_proj,
            "hidden": self.layer,
            "last_query": last.q_proj,
            "last_key": last.k_proj,
        }
        return [module.register_forward_hook(self.keep(name)) for name, module in modules.items()]

    def places(self, crops: int, patches: int) -> Tensor:
        """The patch behind each placeholder in turn, as crop · patches + patch; −1 where there is none."""
        return torch.arange(crops * patches)

    def encoder(self, passed: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """The one row of a layer's attention is made when it is asked for."""
        heads: int = cast(Any, self.layer).self_attn.num_heads
        hidden = passed["hidden"]
        key_CSHE = passed["key"].unflatten(-1, (heads, -1))
        patches = hidden.shape[1] - 1
        places = self.places(len(hidden), patches)
        if len(places) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{len(places)} patches and newlines from the tower, {sum(visual_tokens)} visual tokens in the prompt"
            )
        side = isqrt(patches)

        def attend_last() -> tuple[Tensor, Tensor]:
            key_CSD = passed["last_key"]
            return _cls_row(passed["last_query"], key_CSD, heads=1)[:, 0], key_CSD[:, 1:]

        return Encoder(
            hidden=hidden[:, 1:],
            cls=hidden[:, 0],
            attend=lambda: _cls_row(passed["query"], passed["key"], heads),
            keys=key_CSHE[:, 1:],
            grid=(side, patches // side),
            places=to_device(places, hidden.device).split(visual_tokens),
            project=self.project,
            attend_last=attend_last if "last_key" in passed else None,
        )


def _cls_row(query_CSD: Tensor, key_CSD: Tensor, heads: int) -> Tensor:
    """[C, heads, M]: the CLS token's row of attention, at least float32, without the column of itself."""
    query_CHE = query_CSD[:, 0].unflatten(-1, (heads, -1))
    key_CSHE = key_CSD.unflatten(-1, (heads, -1))
    scores_CHS = torch.einsum("che,cshe->chs", query_CHE, key_CSHE) * query_CHE.shape[-1] ** -0.5
    return scores_CHS.to(torch.promote_types(scores_CHS.dtype, torch.float32)).softmax(dim=-1)[..., 1:]


class PackedTower(ClipTower):
    """A tower whose crops the model puts together into one picture, cutting padding off and adding newlines.

    owner: the module with `pack_image_features`, which is no module of its own and so has no hook: while we listen, it
    is called a second time, with numbers for patches.
    """

    def __init__(self, layer: nn.Module, last: nn.Module, project: Callable[[Tensor], Tensor], owner: nn.Module):
        super().__init__(layer, last, project)
        self.owner = owner
        self.packed = torch.empty(0, dtype=torch.long)

    def listen(self) -> list[Any]:
        """Also keep where each patch goes."""
        pack = cast(Any, self.owner).pack_image_features

        def heard(features: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            counts = [len(crops) for crops in features]
            patches = features[0].shape[1]
            numbers = torch.arange(sum(counts) * patches, dtype=torch.float64).view(-1, patches, 1).split(counts)
            packed, _ = pack(numbers, *args, **{**kwargs, "image_newline": torch.tensor([-1.0])})
            self.packed = torch.cat(packed).squeeze(-1).long()
            return pack(features, *args, **kwargs)

        cast(Any, self.owner).pack_image_features = heard
        return [*super().listen(), _Removal(lambda: delattr(self.owner, "pack_image_features"))]

    def places(self, crops: int, patches: int) -> Tensor:  # noqa: ARG002
        """As they were packed."""
        return self.packed


@dataclass(frozen=True)
class _Removal:
    """What a hook's handle is: something to take back."""

    remove: Callable[[], None]
