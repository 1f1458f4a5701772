"""CLIP's vision tower, which has a CLS token, as methods see it.

Shapes: C crops, S tokens of a crop with CLS first, M = S − 1 patches, H heads, E head width, D = H · E.
"""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, cast

import torch
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import Encoder, Tower
from trio_core.models.layer import Replacement
from trio_core.tensors import to_device, widened


class ClipTower(Tower):
    """A CLIP tower. Each patch becomes one visual token, in order.

    layer: the tower's layer whose output the projector reads.
    last: the tower's last layer.
    project: the projector.
    """

    def __init__(self, layer: nn.Module, last: nn.Module, project: Callable[[Tensor], Tensor]):
        super().__init__()
        self.layer = layer
        self.last = last
        self.project = project

    def listen(self) -> list[Any]:
        """Record what the layer and the last one make, and what the projector reads."""
        attention, last = (cast(Any, layer).self_attn for layer in (self.layer, self.last))
        modules = {
            "query": attention.q_proj,
            "key": attention.k_proj,
            "hidden": self.layer,
            "last_query": last.q_proj,
            "last_key": last.k_proj,
        }
        reading = cast(nn.Module, self.project).register_forward_pre_hook(self._record_features, with_kwargs=True)
        return [reading, *(module.register_forward_hook(self.recorder(name)) for name, module in modules.items())]

    def _record_features(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorded["features"] = (*args, *kwargs.values())[0]

    def places(self, crops: int, patches: int) -> Tensor:
        """[V]: the patch of each visual token of the batch, as crop · patches + patch; −1 for a newline token."""
        return torch.arange(crops * patches)

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record.

        Raises UnsupportedInput where the projector read other features than the layer's patches, and where the prompt
        has more or fewer visual tokens.
        """
        heads: int = cast(Any, self.layer).self_attn.num_heads
        hidden_CSD = recorded["hidden"]
        if not _same(recorded.get("features"), hidden_CSD[:, 1:]):
            raise UnsupportedInput(
                "vision_feature_layer or vision_feature_select_strategy is not what it was when the context opened: "
                "the projector read other features than the method sees; set both in the configuration before prune()"
            )
        key_CSHE = recorded["key"].unflatten(-1, (heads, -1))
        patches = hidden_CSD.shape[1] - 1
        places = self.places(len(hidden_CSD), patches)
        if len(places) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{len(places)} patches and newlines from the tower, {sum(visual_tokens)} visual tokens in the prompt"
            )
        side = isqrt(patches)

        def attend_last() -> tuple[Tensor, Tensor]:
            key_CSD = recorded["last_key"]
            return _cls_row(recorded["last_query"], key_CSD, heads=1)[:, 0], key_CSD[:, 1:]

        return Encoder(
            hidden=hidden_CSD[:, 1:],
            cls=hidden_CSD[:, 0],
            attend=lambda: _cls_row(recorded["query"], recorded["key"], heads),
            keys=key_CSHE[:, 1:],
            grid=(side, patches // side),
            places=to_device(places, hidden_CSD.device).split(visual_tokens),
            project=self.project,
            attend_last=attend_last,
        )


def _same(features: Tensor | None, patches: Tensor) -> bool:
    """Whether two tensors have the same values. Where they share memory, no value is read."""
    if features is None or features.shape != patches.shape:
        return False
    return features.data_ptr() == patches.data_ptr() or torch.equal(features, patches.to(features))


def _cls_row(query_CSD: Tensor, key_CSD: Tensor, heads: int) -> Tensor:
    """[C, H, M]: the CLS token's row of attention over the patches, in at least float32."""
    query_CHE = query_CSD[:, 0].unflatten(-1, (heads, -1))
    key_CSHE = key_CSD.unflatten(-1, (heads, -1))
    scores_CHS = torch.einsum("che,cshe->chs", query_CHE, key_CSHE) * query_CHE.shape[-1] ** -0.5
    return widened(scores_CHS).softmax(dim=-1)[..., 1:]


class PackedTower(ClipTower):
    """A CLIP tower whose crops the model packs into one picture: it cuts padding off and adds newline tokens.

    `pack_image_features` does the packing. It is a method of the model, so it cannot have a hook. While we listen it is
    replaced on the instance. The replacement calls it twice: once with the numbers of the patches, which shows where
    each patch goes, and once with the features.

    owner: the module that has `pack_image_features`.
    """

    def __init__(self, layer: nn.Module, last: nn.Module, project: Callable[[Tensor], Tensor], owner: nn.Module):
        super().__init__(layer, last, project)
        self.owner = owner
        self.packed = torch.empty(0, dtype=torch.long)

    def listen(self) -> list[Any]:
        """Record also where each patch goes."""
        pack = cast(Any, self.owner).pack_image_features

        def pack_and_record(features: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            counts = [len(crops) for crops in features]
            patches = features[0].shape[1]
            numbers = torch.arange(sum(counts) * patches, dtype=torch.float64).view(-1, patches, 1).split(counts)
            packed, _ = pack(numbers, *args, **{**kwargs, "image_newline": torch.tensor([-1.0])})
            self.packed = torch.cat(packed).squeeze(-1).long()
            return pack(features, *args, **kwargs)

        return [*super().listen(), Replacement(self.owner, "pack_image_features", pack_and_record)]

    def places(self, crops: int, patches: int) -> Tensor:  # noqa: ARG002
        """[V]: the patch of each visual token of the batch in the packed order; −1 for a newline token."""
        return self.packed
