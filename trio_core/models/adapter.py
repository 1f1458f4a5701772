"""A model family as pruning knows it: who it is, where its parts are, and how it differs from most.

`Generic` is the adapter of a model class that no file here names. It finds the parts by the model's structure.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from math import isqrt
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DummyLayer, DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionCacheLayerMixin

from trio_core.errors import UnsupportedModel
from trio_core.models.encoder import KeepPixels, Tower, WatchedTower
from trio_core.models.grid_tower import Grid, GridTower
from trio_core.models.layer import feed_forward, part, take_apart
from trio_core.models.toy import ToyFamily
from trio_core.rules.attention import AttentionLayer, Readout
from trio_core.rules.cost import LayerShape
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS, to_device

adapters: dict[str, type["Adapter"]] = {}
"""The adapter of each model class, by the class's name."""

families: dict[str, type["Adapter"]] = {}
"""The adapter of each family, by the family's name."""


GROWING = (DynamicLayer, DynamicSlidingWindowLayer)
"""The cache layers that simply grow. Others fix a length, quantise or index their keys, or have none."""

DEEPSTACK_PAIRS = (("visual_pos_masks", "deepstack_visual_embeds"), ("vision_mask", "deepstack_features"))
"""The decoder's arguments for DeepStack, by where they stand and what they add: Qwen3-VL's and Granite 4 Vision's."""
DEEPSTACK = tuple(name for pair in DEEPSTACK_PAIRS for name in pair)


class VideoShape(NamedTuple):
    """One video of a forward.

    frames: how many frames. Qwen's tower merges two pictures into one frame.
    frame_tokens: visual tokens of a frame.
    extra: visual tokens behind the last frame, such as a newline.
    """

    frames: int
    frame_tokens: int
    extra: int = 0

    @property
    def tokens(self) -> int:
        """The visual tokens of the video."""
        return self.frames * self.frame_tokens + self.extra


class Adapter(ToyFamily):
    """A family's model as pruning sees it.

    The defaults fit every transformers-5 model whose decoder is at `decoder_path` and whose layers look like Llama's.
    A family is a subclass that names its classes and overrides whatever is different.
    """

    # --- who it is ---------------------------------------------------------------------------------------------------

    family: ClassVar[str] = ""
    """The family's name, as its authors write it."""
    decoders: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2", "qwen3", "granite")
    """The `model_type` of each text model that the file was written for. Many classes take any text model."""
    processors: ClassVar[tuple[str, ...]] = ()
    """The processor classes of a family whose `plain_prompt` is not the default."""

    def __init__(self, model: PreTrainedModel):
        self.model = model

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # An inherited name belongs to the parent: PaliGemma 2 is a family whose class is PaliGemma's.
        for name in vars(cls).get("classes", ()):
            adapters[name] = cls
        if "family" in vars(cls):
            families[cls.family] = cls

    @cached_property
    def known(self) -> bool:
        """Whether the file was written for this decoder. With another one the model is tried before it is pruned."""
        return self.model.config.get_text_config().model_type in self.decoders

    # --- where its parts are -----------------------------------------------------------------------------------------

    decoder_path: ClassVar[str] = "model.language_model"
    """Where the decoder is in the model."""

    @property
    def decoder(self) -> nn.Module:
        """The language model. It holds `layers`, `norm` and `rotary_emb`."""
        return cast(nn.Module, self.model.get_submodule(self.decoder_path))

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers, first to last."""
        return list(cast(nn.ModuleList, self.decoder.get_submodule("layers")))

    @property
    def final_norm(self) -> nn.Module:
        """The norm between the last layer and the head: [..., D] → [..., D]."""
        return self.decoder.get_submodule("norm")

    def head(self, normed: HiddenBSD) -> LogitsBPV:
        """The head: [B, P, D], after the final norm → [B, P, V]."""
        return cast(nn.Module, self.model.get_output_embeddings())(normed)

    @property
    def readout(self) -> Readout:
        """Final norm and head: [B, P, D] → [B, P, V]."""
        return Readout(self.final_norm, self.head)

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Cosines and sines, each [B, S, head width], for a decoder layer.

        hidden: [B, S, D]. Only its dtype and device count.
        position_ids: [B, S].
        index: of the layer, from 0.
        """
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids)

    def tower(self) -> WatchedTower:
        """The vision tower for methods that look into it. Raises UnsupportedModel where we cannot read it."""
        raise UnsupportedModel(
            f"{self.family}: its vision tower has no CLS token, nor other attention, that we know how to read; methods "
            "that ask for it run on LLaVA-1.5, LLaVA-NeXT, LLaVA-NeXT-Video, LLaVA-OneVision, Qwen2-VL and Qwen2.5-VL"
        )

    has_grids: ClassVar[bool] = True
    """Whether the visual tokens of a picture, or of each of its tiles, form a grid."""

    def grid_tower(self) -> GridTower:
        """The vision tower for a method that needs the order of the visual tokens and nothing else of the tower.

        Raises UnsupportedModel where the tokens form no grid that we know.
        """
        if not self.has_grids:
            raise UnsupportedModel(
                f"{self.family}: how its visual tokens lie on a picture is not known; choose a method that does not "
                "ask for it, such as grid or random"
            )
        return GridTower(self.model.base_model, self.grids, self.family)

    def grids(self, inputs: dict[str, Any], tokens: Sequence[int]) -> list[Grid]:
        """The grid of each picture, tile or frame of a forward, in the order of the tokens. Empty where there is none.

        inputs: the arguments of the model's `get_image_features` or `get_video_features`.
        tokens: visual tokens of each picture, tile or frame, as far as the model tells them.
        """
        if (sizes := inputs.get("image_grid_thw", inputs.get("video_grid_thw"))) is not None:
            merged = self.model.config.vision_config.spatial_merge_size
            return [Grid(h // merged, w // merged) for frames, h, w in sizes.tolist() for _ in range(frames)]
        # Some towers have registers, which the model passes on with the patches.
        registers = getattr(self.model.config.vision_config, "num_register_tokens", 0)
        sides = [isqrt(count - registers) for count in tokens]
        squares = all(side**2 + registers == count for side, count in zip(sides, tokens, strict=True))
        return [Grid(side, side, registers) for side in sides] if squares else []

    def thin_tower(self, keep: KeepPixels) -> Tower:
        """The vision tower that runs on a part of its patches. keep: the method's rule.

        Raises UnsupportedModel where we cannot thin it out.
        """
        del keep
        raise UnsupportedModel(
            f"{self.family}: its vision tower cannot run on a part of its patches; methods that choose by pixels run "
            "on Qwen2-VL, Qwen2.5-VL and Qwen3-VL"
        )

    def placeholder_ids(self) -> tuple[int, ...]:
        """The token ids that stand for visual tokens in `input_ids`."""
        names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
        ids = (getattr(self.model.config, name, None) for name in names)
        return tuple(dict.fromkeys(token for token in ids if token is not None))

    def visual_tokens(self, input_ids: Tensor) -> MaskBS:
        """[B, S]: True at visual tokens."""
        return torch.isin(input_ids, to_device(torch.tensor(self.placeholder_ids()), input_ids.device))

    @property
    def video_ids(self) -> tuple[int, ...]:
        """The token ids that stand for visual tokens of videos. Empty in a family that shows them as pictures."""
        config = self.model.config
        image, video = (
            getattr(config, f"{kind}_token_id", getattr(config, f"{kind}_token_index", None))
            for kind in ("image", "video")
        )
        return () if video in (None, image) else (video,)

    def videos(self, inputs: dict[str, Any], tokens: int) -> tuple[VideoShape, ...]:
        """The videos of a forward in their order. Empty where its arguments do not tell their frames.

        inputs: the arguments of the model's forward. Its `pixel_values_videos` are [videos, frames, 3, height, width].
        tokens: visual tokens of all videos of the batch.
        """
        pixels, extra = inputs.get("pixel_values_videos"), self.video_extra
        if not isinstance(pixels, Tensor) or pixels.ndim != 5:
            return ()
        videos, frames = pixels.shape[:2]
        shape = VideoShape(frames, (tokens // videos - extra) // frames, extra)
        return (shape,) * videos if shape.tokens * videos == tokens else ()

    # --- its decoder layers ------------------------------------------------------------------------------------------

    def attention_layer(self, layer: nn.Module) -> AttentionLayer:
        """A decoder layer taken apart into callables. Raises UnsupportedModel that names what stands in the way."""
        if "llama_4_scaling_beta" in (getattr(self.model.config.get_text_config(), "rope_parameters", None) or {}):
            raise UnsupportedModel(
                f"queries scale with their position: {self.family} cannot be taken apart; use saliency 'autograd'"
            )
        return take_apart(layer, partial(self.finish, layer), known=self.known)

    def in_halves(self, turned: Tensor) -> Tensor:
        """Queries, keys, cosines or sines [..., E] in the order of Llama, which turns the halves of a head."""
        return turned

    norms: ClassVar[tuple[str, str, str] | None] = None
    """A layer's norms behind its attention, before its FFN and behind it. A layer without the second one has none."""

    def finish(self, layer: nn.Module, residual: Tensor, attended: Tensor) -> Tensor:
        """The part of a layer that follows attention: add, norm, FFN, add; and `norms` if the layer has them.

        residual: [B, P, D], the rows that entered the layer.
        attended: [B, P, D], the output of its attention.
        Returns [B, P, D], the rows that leave the layer.
        """
        if self.norms is not None and hasattr(layer, self.norms[1]):
            after_attention, before, after = (part(layer, name) for name in self.norms)
            middle = residual + after_attention(attended)
            return middle + after(self.feed_forward(layer, before, part(layer, "mlp"), middle))
        multiplier = getattr(layer, "residual_multiplier", None)  # Granite has one
        if multiplier is not None:
            attended = attended * multiplier
        middle = residual + attended
        made = feed_forward(part(layer, "post_attention_layernorm"), part(layer, "mlp"), middle)
        return middle + (made if multiplier is None else made * multiplier)

    def feed_forward(self, layer: nn.Module, norm: nn.Module, ffn: nn.Module, rows: Tensor) -> Tensor:  # noqa: ARG002
        """[B, P, D], the output of a layer's norm and FFN."""
        return feed_forward(norm, ffn, rows)

    @property
    def layer_shape(self) -> LayerShape:
        """The widths of the first decoder layer: heads and matrices are read from it, the rest is configuration."""
        config, attention = self.model.config.get_text_config(), part(self.layers[0], "self_attn")
        heads = config.num_attention_heads
        # If layers have unlike heads, the configuration raises an error where it is asked for them [transformers 5.24].
        width = getattr(attention, "head_dim", None) or config.hidden_size // heads
        groups = getattr(attention, "num_key_value_groups", None)
        kv_heads = heads // groups if groups else config.num_key_value_heads
        return LayerShape(
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            query_width=heads * width,
            kv_width=kv_heads * width,
            heads=heads,
            vocabulary=config.vocab_size,
            ffn_matrices=2 + any(hasattr(part(self.layers[0], "mlp"), name) for name in ("gate_proj", "gate_up_proj")),
        )

    @property
    def attention(self) -> str:
        """The decoder's attention implementation, as transformers names it."""
        return str(self.model.config.get_text_config()._attn_implementation)

    @property
    def causal(self) -> bool:
        """Whether attention without a mask looks back only. PaliGemma's looks both ways."""
        return getattr(part(self.layers[0], "self_attn"), "is_causal", True)

    @property
    def window(self) -> int | None:
        """The smallest sliding window of any layer, in tokens with the current one; None where no layer has one."""
        return min((layer.sliding_window for layer in cache_layers(self.model) if layer.is_sliding), default=None)

    # --- its processor -----------------------------------------------------------------------------------------------

    sizing: ClassVar[str] = "resizes every picture to the size that its processor names"
    """How the family's processor treats the size of a picture. An error message says it after the family's name."""
    takes_pixels: ClassVar[bool] = False
    """Whether a picture keeps its shape and has any number of pixels between a least and a most number.

    `size["shortest_edge"]` and `size["longest_edge"]` of the image processor are then these two numbers.
    """

    @classmethod
    def plain_prompt(cls, pictures: Sequence[str], prompt: str) -> str:
        """The prompt of a checkpoint that has no chat template. The default is LLaVA-1.5's form.

        pictures: the placeholder of each picture.
        prompt: the question.
        """
        placeholders = "".join(f"{placeholder}\n" for placeholder in pictures)
        return f"USER: {placeholders}{prompt} ASSISTANT:"

    # --- how it differs ----------------------------------------------------------------------------------------------

    multi_axis_positions: ClassVar[bool] = False
    """Whether rotary positions have several axes (m-RoPE). Renumbering kept tokens is then not defined."""

    def listen(self) -> list[Any]:
        """Register the hooks that a family's own code asks for. Returns their handles, each with a `remove()`."""
        return []

    def extra_inputs(self, ids: Tensor, prompt_length: int) -> dict[str, Tensor]:  # noqa: ARG002
        """Arguments that the model needs with a text in addition to its ids and its attention mask.

        ids: [B, S], a prompt and the tokens generated so far.
        prompt_length: how many of the S tokens are the prompt.
        """
        return {}

    def take_additions(self, kwargs: dict[str, Any]) -> dict[int, Tensor]:
        """Remove DeepStack's features from the decoder's arguments, so that the engine can add them to kept tokens.

        kwargs: the decoder's keyword arguments. The features are popped from it.
        Returns, by the index of a layer, what to add to its input: [B, S, D] over the full sequence, zero at text.
        """
        pairs = [(kwargs.pop(mask, None), kwargs.pop(features, None)) for mask, features in DEEPSTACK_PAIRS]
        visual, features = next(((mask, values) for mask, values in pairs if values is not None), (None, None))
        if visual is None or features is None:
            return {}
        if not isinstance(features, dict):  # Qwen3-VL's list begins with what is added behind the first layer
            features = dict(enumerate(features, start=1))
        inputs = kwargs["inputs_embeds"]
        places = visual.view(inputs.shape[:2])
        return {
            index: torch.zeros_like(inputs).index_put((places,), feature.to(inputs))
            for index, feature in features.items()
        }


def cache_layers(model: PreTrainedModel) -> list[Any]:
    """The empty cache of each decoder layer, as the library makes it for this model.

    Raises UnsupportedModel for a decoder in which dropping a token is more than hiding its keys.
    """
    layers: list[Any] = DynamicCache(config=model.config).layers
    for number, layer in enumerate(layers, start=1):
        if type(layer) in GROWING:
            continue
        if isinstance(layer, LinearAttentionCacheLayerMixin):
            reason = "carries a state through all tokens (linear attention or a convolution)"
        elif isinstance(layer, DummyLayer):
            reason = "has no keys of its own (it shares another layer's, or has no attention)"
        else:
            reason = f"keeps its keys in a {type(layer).__name__}"
        raise UnsupportedModel(
            f"{type(model).__name__}: decoder layer {number} of {len(layers)} {reason}, so no token can be dropped; "
            "choose a model whose decoder layers all have ordinary attention"
        )
    return layers


class Generic(Adapter):
    """A model whose decoder is the module that holds the word embeddings. The other parts are Adapter's defaults.

    `known` is False, so the model is tried before it is pruned. Raises UnsupportedModel that names a missing part.
    """

    decoders = ()
    has_grids = False

    def __init__(self, model: PreTrainedModel):
        super().__init__(model)
        config = model.config.get_text_config()
        # Class facts of a family are here facts of one model.
        vars(self).update(
            family=type(model).__name__,
            multi_axis_positions="mrope_section" in (getattr(config, "rope_parameters", None) or {}),
        )
        for name in ("layers", "norm", "rotary_emb"):
            if not hasattr(self.decoder, name):
                raise self._without(f"its decoder {type(self.decoder).__name__} has no {name!r}")
        if model.get_output_embeddings() is None:
            raise self._without("it has no output embeddings")
        if not self.placeholder_ids():
            raise self._without("its configuration names no image_token_id")

    @property
    def decoder(self) -> nn.Module:
        """The module that holds the word embeddings."""
        try:
            words = self.model.get_input_embeddings()
        except NotImplementedError:
            words = None
        for module in self.model.modules():
            if any(child is words for child in module.children()):
                return cast(nn.Module, module)
        raise self._without("it has no input embeddings")

    def head(self, normed: HiddenBSD) -> LogitsBPV:
        """The head, and Granite's scale of the logits: [B, P, D] → [B, P, V]."""
        return super().head(normed) / (getattr(self.model.config.get_text_config(), "logits_scaling", None) or 1)

    def _without(self, lack: str) -> UnsupportedModel:
        return UnsupportedModel(
            f"model class {type(self.model).__name__} is not known, and {lack}; known: {', '.join(sorted(adapters))}; "
            "a family is one file in trio_core/models"
        )
