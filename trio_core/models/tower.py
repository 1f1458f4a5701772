"""A CLIP vision tower listened to: its patches as the projector reads them, and what the CLS token attends to.

The tower runs its own attention kernel; the one row of one layer that methods ask for is computed from the queries and
keys that pass by, so that no attention map is ever asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.view import Encoder


class ClipTower:
    """The layer of a CLIP tower whose output the projector reads, CLS first; each patch has a placeholder, in order.

    layer: the encoder layer. project: the projector.
    """

    def __init__(self, layer: nn.Module, project: Callable[[Tensor], Tensor]):
        self.layer = layer
        self.project = project
        self.passing: dict[str, Tensor] = {}

    def listen(self) -> list[Any]:
        """Keep the latest queries, keys and output of the layer. Returns handles, each with a `remove()`."""
        attention = self.layer.get_submodule("self_attn")
        modules = {
            "query": attention.get_submodule("q_proj"),
            "key": attention.get_submodule("k_proj"),
            "hidden": self.layer,
        }
        return [module.register_forward_hook(self._keeper(name)) for name, module in modules.items()]

    def forget(self) -> None:
        """What passed by belongs to one forward, also to one that came to no choice."""
        self.passing.clear()

    def places(self, crops: int, patches: int) -> Tensor:
        """The patch behind each placeholder in turn, as crop · patches + patch; −1 where there is none."""
        return torch.arange(crops * patches)

    def _keeper(self, name: str) -> Callable[..., None]:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            self.passing[name] = output[0] if isinstance(output, tuple) else output

        return keep

    def seen(self, visual_tokens: list[int]) -> Encoder:
        """What passed by, for a batch whose samples have so many visual tokens.

        Raises UnsupportedInput where no picture went through the tower in this forward.
        """
        if not self.passing:
            raise UnsupportedInput("no picture went through the vision tower: pass pixel_values with the prompt")
        heads: int = cast(Any, self.layer).self_attn.num_heads
        query, key, hidden = (self.passing.pop(name) for name in ("query", "key", "hidden"))
        width = query.shape[-1] // heads
        query_CHE = query[:, 0].unflatten(-1, (heads, width))
        key_CSHE = key.unflatten(-1, (heads, width))
        scores_CHS = torch.einsum("che,cshe->chs", query_CHE, key_CSHE) * width**-0.5
        attention_CHS = scores_CHS.to(torch.promote_types(scores_CHS.dtype, torch.float32)).softmax(dim=-1)
        places = self.places(len(hidden), hidden.shape[1] - 1)
        if len(places) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{len(places)} patches and newlines from the tower, {sum(visual_tokens)} visual tokens in the prompt"
            )
        return Encoder(
            hidden, attention_CHS[..., 1:], key_CSHE[:, 1:], places.to(hidden.device).split(visual_tokens), self.project
        )


class PackedTower(ClipTower):
    """A tower whose crops the model puts together into one picture, cutting padding off and adding newlines.

    owner: the module with `pack_image_features`, which is no module of its own and so has no hook: while we listen, it
    is called a second time, with numbers for patches.
    """

    def __init__(self, layer: nn.Module, project: Callable[[Tensor], Tensor], owner: nn.Module):
        super().__init__(layer, project)
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
