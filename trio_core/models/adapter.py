"""What pruning needs to know of a model family, and nothing else."""

from functools import partial
from typing import Any, ClassVar, cast

import torch
import transformers
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.encoder import Tower
from trio_core.models.layer import part, take_apart
from trio_core.rules.attention import AttentionLayer
from trio_core.rules.cost import LayerShape
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS

adapters: dict[str, type["Adapter"]] = {}
"""The adapter of each model class, by the class's name."""

families: dict[str, type["Adapter"]] = {}
"""The adapter of each family, by the family's name."""


class Adapter:
    """A family's decoder, norm, head, placeholder ids and positions.

    The defaults fit every transformers-5 model whose decoder is at `decoder_path` and whose head is
    `model.lm_head`; a subclass names its classes and whatever is different.
    """

    family: ClassVar[str] = ""
    classes: ClassVar[tuple[str, ...]] = ()
    decoders: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2", "qwen3", "granite")
    """The text models that the file was written for, by `model_type`; many classes hold whatever they are given."""
    decoder_path: ClassVar[str] = "model.language_model"
    multi_axis_positions: ClassVar[bool] = False
    """Rotary positions have several axes (m-RoPE), so that renumbering kept tokens is not defined."""
    toy_attention: ClassVar[tuple[str, ...]] = ("eager", "sdpa")
    """The attention implementations that the family's decoder has on any machine."""

    def __init__(self, model: PreTrainedModel):
        self.model = model

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # What is only inherited belongs to the parent: PaliGemma 2 is a family whose class is PaliGemma's.
        for name in vars(cls).get("classes", ()):
            adapters[name] = cls
        if "family" in vars(cls):
            families[cls.family] = cls

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """The smallest configuration of the family's class that shows what is special about it."""
        raise NotImplementedError(f"{cls.__name__} has no toy")

    @classmethod
    def toy(cls, attention: str = "sdpa", seed: int = 0) -> PreTrainedModel:
        """The family's real class at toy size with random weights, the same ones whatever the attention."""
        return toy.build(getattr(transformers, cls.classes[0]), cls.toy_config(), attention, seed)

    @property
    def decoder(self) -> nn.Module:
        """The language model: what holds `layers`, `norm` and `rotary_emb`."""
        return cast(nn.Module, self.model.get_submodule(self.decoder_path))

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers, first to last."""
        return list(cast(nn.ModuleList, self.decoder.get_submodule("layers")))

    @property
    def known(self) -> bool:
        """A file was written for this class with this decoder; any other is tried before it is used."""
        return self.model.config.get_text_config().model_type in self.decoders

    @property
    def attention(self) -> str:
        """The decoder's attention implementation, as transformers names it."""
        return str(self.model.config.get_text_config()._attn_implementation)

    @property
    def causal(self) -> bool:
        """Whether attention without a mask looks back only; PaliGemma's looks both ways."""
        return getattr(part(self.layers[0], "self_attn"), "is_causal", True)

    @property
    def window(self) -> int | None:
        """The fewest tokens that a layer looks back over, itself included; None where none has a limit."""
        layers: list[Any] = DynamicCache(config=self.model.config).layers
        return min((layer.sliding_window for layer in layers if layer.is_sliding), default=None)

    def tower(self) -> Tower:
        """What the encoder's methods look into. Raises UnsupportedModel for a family whose tower we cannot read."""
        raise UnsupportedModel(
            f"{self.family}: its vision tower has no CLS token, nor other attention, that we know how to read; methods "
            "that ask for it run on LLaVA-1.5, LLaVA-NeXT, Qwen2-VL and Qwen2.5-VL"
        )

    def beside(self, ids: Tensor, prompt: int) -> dict[str, Tensor]:  # noqa: ARG002
        """What the model must be told of a text besides its ids [B, S], of which the first `prompt` were given."""
        return {}

    def take_additions(self, kwargs: dict[str, Any]) -> dict[int, Tensor]:
        """Take DeepStack out of the decoder's arguments: what it would add to all visual tokens after its first layers.

        Returns, by the index of the layer before which they are due, [B, S, D] over the full sequence.
        """
        places, features = kwargs.pop("visual_pos_masks", None), kwargs.pop("deepstack_visual_embeds", None)
        return {
            index: torch.zeros_like(kwargs["inputs_embeds"]).index_put((places,), feature.to(kwargs["inputs_embeds"]))
            for index, feature in enumerate(features or (), start=1)
        }

    def readout(self, hidden: HiddenBSD) -> LogitsBPV:
        """Final norm and head: [B, P, D] → [B, P, V]."""
        return cast(nn.Module, self.model.get_output_embeddings())(self.final_norm(hidden))

    def final_norm(self, hidden: Tensor) -> Tensor:
        """The norm between the last layer and the head: [..., D] → [..., D]."""
        return self.decoder.get_submodule("norm")(hidden)

    @property
    def layer_shape(self) -> LayerShape:
        """The widths of a decoder layer, from the configuration; the FFN's matrices from the layer itself."""
        config = self.model.config.get_text_config()
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return LayerShape(
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            query_width=config.num_attention_heads * width,
            kv_width=config.num_key_value_heads * width,
            heads=config.num_attention_heads,
            vocabulary=config.vocab_size,
            ffn_matrices=3 if hasattr(part(self.layers[0], "mlp"), "gate_proj") else 2,
        )

    def attention_layer(self, layer: nn.Module) -> AttentionLayer:
        """A decoder layer taken apart. Raises UnsupportedModel naming what is missing or not foreseen."""
        if "llama_4_scaling_beta" in (getattr(self.model.config.get_text_config(), "rope_parameters", None) or {}):
            raise UnsupportedModel(
                f"queries scale with their position: {self.family} cannot be taken apart; use saliency 'autograd'"
            )
        return take_apart(layer, partial(self.finish, layer))

    def finish(self, layer: nn.Module, residual: Tensor, attended: Tensor) -> Tensor:
        """The layer's rows [B, P, D] once attention is done: residual, norm, FFN, residual."""
        share = getattr(layer, "residual_multiplier", 1)  # Granite's
        middle = residual + attended * share
        return middle + part(layer, "mlp")(part(layer, "post_attention_layernorm")(middle)) * share

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Cosines and sines [B, S, head_dim] for position ids [B, S], as layer `index` takes them."""
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids)

    def placeholder_ids(self) -> tuple[int, ...]:
        """Token ids that stand for visual tokens in `input_ids`."""
        names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
        ids = (getattr(self.model.config, name, None) for name in names)
        return tuple(dict.fromkeys(token for token in ids if token is not None))

    def visual_tokens(self, input_ids: Tensor) -> MaskBS:
        """[B, S], True at visual tokens."""
        return torch.isin(input_ids, torch.tensor(self.placeholder_ids(), device=input_ids.device))
