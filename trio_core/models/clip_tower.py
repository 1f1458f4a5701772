"""Vision towers like CLIP's as methods see them: CLIP, ViT and DINOv2 have a CLS token, SigLIP has none.

Shapes: C crops, M patches of a crop, S tokens of a crop (its patches, behind the CLS token if there is one, and behind
registers if there are some), H heads, E head width, D = H · E.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import ONE_KIND, Encoder, WatchedTower, received_attention
from trio_core.models.layer import Replacement
from trio_core.tensors import to_device, widened


def tower_layers(tower: nn.Module) -> list[nn.Module]:
    """The layers of a vision tower, first to last. Empty if it has none with projections for queries and keys."""
    inner: Any = getattr(tower, "encoder", tower)
    layers = [*getattr(inner, "layers", getattr(inner, "layer", ()))]
    return layers if layers and hasattr(_attention(layers[0]), "q_proj") else []


def _attention(layer: Any) -> Any:
    """The attention of a tower's layer; None if it has none that we know."""
    return getattr(layer, "self_attn", getattr(layer, "attention", None))


class ClipTower(WatchedTower):
    """A tower of CLIP, ViT, DINOv2 or SigLIP. Each patch becomes one visual token, in order.

    layer: the tower's layer whose output the projector reads.
    last: the tower's last layer. None in a tower without a CLS token.
    owner: the module around the tower, which has the projector.
    registers: tokens between the CLS token and the patches of a crop. They become visual tokens that are no patch.
    """

    def __init__(self, layer: nn.Module, last: nn.Module | None, owner: Any, registers: int = 0):
        super().__init__()
        self.layer = layer
        self.last = last
        self.owner = owner
        self.registers = registers
        self.project: nn.Module = owner.multi_modal_projector
        self.has_cls = last is not None

    def listen(self) -> list[Any]:
        """Record what the layer and the last one make, and what the projector reads."""
        attention = _attention(self.layer)
        modules = {"query": attention.q_proj, "key": attention.k_proj, "hidden": self.layer}
        if self.last is not None:
            last = _attention(self.last)
            modules |= {"last_query": last.q_proj, "last_key": last.k_proj}
        reading = self.project.register_forward_pre_hook(self._record_features, with_kwargs=True)
        return [reading, *(module.register_forward_hook(self.recorder(name)) for name, module in modules.items())]

    def _record_features(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorded["features"] = (*args, *kwargs.values())[0]

    def places(self, crops: int, patches: int) -> Tensor:
        """[V]: the patch of each visual token of the batch, as crop · patches + patch; −1 for one that is no patch."""
        return F.pad(torch.arange(crops * patches).view(crops, patches), (self.registers, 0), value=-1).flatten()

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record.

        Raises UnsupportedInput where the projector read other features than the layer's patches, and where the prompt
        has more or fewer visual tokens.
        """
        encoder = self.by_patch(recorded)
        places = self.places(len(encoder.hidden), encoder.patches)
        if len(places) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{len(places)} patches and newlines from the tower, {sum(visual_tokens)} visual tokens in the prompt"
            )
        return replace(encoder, places=to_device(places, encoder.hidden.device).split(visual_tokens))

    def by_patch(self, recorded: dict[str, Any]) -> Encoder:
        """An Encoder of the record that does not know its visual tokens yet."""
        heads: int = self.owner.config.vision_config.num_attention_heads
        query_CSD, key_CSD, hidden_CSD = (recorded[name] for name in ("query", "key", "hidden"))
        first = int(self.has_cls) + self.registers
        if not _same(recorded.get("features"), hidden_CSD[:, int(self.has_cls) :]):
            raise UnsupportedInput(
                "vision_feature_layer or vision_feature_select_strategy is not what it was when the context opened: "
                "the projector read other features than the method sees; set both in the configuration before prune()"
            )
        hidden_CMD = hidden_CSD[:, first:]
        patches = hidden_CMD.shape[1]
        side, row = isqrt(patches), _cls_row if self.has_cls else _mean_row

        def attend_last() -> tuple[Tensor, Tensor]:
            last_CSD = recorded["last_key"]
            return _cls_row(recorded["last_query"], last_CSD, heads=1)[:, 0, first:], last_CSD[:, first:]

        return Encoder(
            hidden=hidden_CMD,
            cls=hidden_CSD[:, 0] if self.has_cls else None,
            attend=lambda: row(query_CSD, key_CSD, heads)[..., first:],
            keys=key_CSD.unflatten(-1, (heads, -1))[:, first:],
            grid=(side, patches // side),
            places=(),
            project=self.project,
            attend_last=attend_last if self.has_cls else None,
        )


def _same(features: Tensor | None, patches: Tensor) -> bool:
    """Whether two tensors have the same values. Where they share memory, no value is read."""
    if features is None or features.shape != patches.shape:
        return False
    return features.data_ptr() == patches.data_ptr() or torch.equal(features, patches.to(features))


def _cls_row(query_CSD: Tensor, key_CSD: Tensor, heads: int) -> Tensor:
    """[C, H, S]: the CLS token's row of attention, in at least float32."""
    query_CHE = query_CSD[:, 0].unflatten(-1, (heads, -1))
    key_CSHE = key_CSD.unflatten(-1, (heads, -1))
    scores_CHS = torch.einsum("che,cshe->chs", query_CHE, key_CSHE) * query_CHE.shape[-1] ** -0.5
    return widened(scores_CHS).softmax(dim=-1)


def _mean_row(query_CSD: Tensor, key_CSD: Tensor, heads: int) -> Tensor:
    """[C, H, S]: the attention that each token of a crop gets from all of them, averaged over them."""
    crops = zip(*(part.unflatten(-1, (heads, -1)) for part in (query_CSD, key_CSD)), strict=True)
    scaling = (query_CSD.shape[-1] // heads) ** -0.5
    return torch.stack([received_attention(query, key, scaling).T for query, key in crops])


class PackedTower(ClipTower):
    """A tower whose crops the model packs into one picture: it cuts padding off and adds newline tokens.

    `pack_image_features` does the packing. It is a method of the model, so it cannot have a hook. While we listen it is
    replaced on the instance. The replacement calls it twice: with the numbers of the patches, which shows where each
    patch goes, and with the features. Each number stands beside its square. Where the model blends patches, the mean of
    the squares is not the square of the mean.
    """

    def listen(self) -> list[Any]:
        """Record also where each patch goes."""
        pack = self.owner.pack_image_features

        def pack_and_record(features: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            counts = [len(crops) for crops in features]
            patches = features[0].shape[1]
            numbers = torch.arange(sum(counts) * patches, dtype=torch.float64).view(-1, patches, 1)
            marked = torch.cat([numbers, numbers**2], dim=-1).split(counts)
            packed, _ = pack(marked, *args, **{**kwargs, "image_newline": torch.tensor([-1.0, 1.0])})
            self.recorded["packed"] = torch.cat(packed)
            return pack(features, *args, **kwargs)

        return [*super().listen(), Replacement(self.owner, "pack_image_features", pack_and_record)]

    def places(self, crops: int, patches: int) -> Tensor:  # noqa: ARG002
        """[V]: the patch of each visual token of the batch in the packed order; −1 for a newline token.

        Raises UnsupportedInput where the model blended patches, as LLaVA-OneVision does with a picture of more than ten
        tiles.
        """
        number, square = self.recorded["packed"].unbind(dim=-1)
        if not torch.equal(number**2, square):
            raise UnsupportedInput(
                "the picture takes so many tiles that the model blends their patches, and methods that look into the "
                "tower need whole patches: make the picture smaller, or choose a method that does not look there"
            )
        return number.long()


class FramesTower(PackedTower):
    """A tower whose model also takes videos, and pools the patches of a frame. There a crop is a frame.

    A patch of a video is a pooled one behind the projector, that is, a visual token. A subclass records `pooled`, the
    frames' visual tokens [F, P, D], and says how the model pools.
    """

    newlines: ClassVar[int] = 0
    """Visual tokens behind the last frame of a video."""

    @abstractmethod
    def pool(self, features: Tensor) -> Tensor:
        """[F, M, any] → [F, P, any], as the model pools the patches of frames. It records nothing."""

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record. Raises UnsupportedInput also where a batch has pictures and videos."""
        if "pooled" not in recorded:
            return super().make_encoder(recorded, visual_tokens)
        if "packed" in recorded:
            raise UnsupportedInput(f"pictures and a video in the prompt: {ONE_KIND}")
        encoder, pooled = self.by_patch(recorded), recorded["pooled"]
        frames, patches = pooled.shape[:2]
        side, rest = isqrt(patches), sum(visual_tokens) - frames * patches
        videos = rest // self.newlines if self.newlines else 1  # their number matters for the newlines alone
        if videos * self.newlines != rest or videos < 1 or frames % videos:
            raise UnsupportedInput(
                f"{frames} frames of {patches} tokens and {self.newlines} behind each video from the tower, "
                f"{sum(visual_tokens)} visual tokens in the prompt"
            )
        places = F.pad(torch.arange(frames * patches).view(videos, -1), (0, self.newlines), value=-1).flatten()
        return Encoder(
            hidden=pooled,
            cls=None,
            attend=lambda: self.pool(encoder.attention.transpose(1, 2)).transpose(1, 2),
            keys=self.pool(encoder.keys.flatten(2)).unflatten(-1, encoder.keys.shape[2:]),
            grid=(side, patches // side),
            places=to_device(places, pooled.device).split(visual_tokens),
            project=lambda features: features,
        )


class PooledTower(FramesTower):
    """LLaVA-OneVision's: it pools behind the projector, and puts a newline behind a video."""

    newlines: ClassVar[int] = 1

    def listen(self) -> list[Any]:
        """Record also what the model pooled."""
        self._apply_pooling = self.owner.apply_pooling

        def pool_and_record(features: Tensor) -> Tensor:
            pooled = self.recorded["pooled"] = self.pool(features)
            return pooled

        return [*super().listen(), Replacement(self.owner, "apply_pooling", pool_and_record)]

    def pool(self, features: Tensor) -> Tensor:
        """As the model's `apply_pooling`."""
        return self._apply_pooling(features)


class ResampledTower(FramesTower):
    """LLaVA-NeXT-Video's: it pools before the projector, by the module `vision_resampler`."""

    def listen(self) -> list[Any]:
        """Record also what the resampler reads, and what the projector makes of its output."""
        return [
            *super().listen(),
            self.owner.vision_resampler.register_forward_pre_hook(self._record_frames),
            self.project.register_forward_hook(self._record_tokens),
        ]

    def _record_frames(self, _resampler: nn.Module, args: tuple[Any, ...]) -> None:
        self.recorded["frames"] = args[0]

    def _record_tokens(self, _projector: nn.Module, _args: Any, output: Tensor) -> None:
        """Of a video, whose pooled frames the projector reads: the layer's patches are what the resampler read."""
        if "frames" in self.recorded:
            self.recorded |= {"pooled": output, "features": self.recorded["frames"]}

    def pool(self, features: Tensor) -> Tensor:
        """As the model's `vision_resampler`."""
        return self.owner.vision_resampler.forward(features)
