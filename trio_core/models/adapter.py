"""What pruning needs to know of a model family, and nothing else."""

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.method import LayerShape
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS
from trio_core.view import AttentionLayer

adapters: dict[str, type["Adapter"]] = {}
"""The adapter of each model class, by the class's name."""


class Adapter:
    """A family's decoder, norm, head, placeholder ids and positions.

    The defaults fit every transformers-5 model whose decoder is `model.model.language_model` and whose head is
    `model.lm_head`; a subclass names its classes and whatever is different.
    """

    family: ClassVar[str] = ""
    classes: ClassVar[tuple[str, ...]] = ()
    multi_axis_positions: ClassVar[bool] = False
    """Rotary positions have several axes (m-RoPE), so that renumbering kept tokens is not defined."""

    def __init__(self, model: PreTrainedModel):
        self.model = model

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.classes:
            adapters[name] = cls

    @property
    def decoder(self) -> nn.Module:
        """The language model: what holds `layers`, `norm` and `rotary_emb`."""
        return cast(nn.Module, self.model.get_submodule("model.language_model"))

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers, first to last."""
        return list(cast(nn.ModuleList, self.decoder.get_submodule("layers")))

    @property
    def attention(self) -> str:
        """The decoder's attention implementation, as transformers names it."""
        return str(self.model.config.get_text_config()._attn_implementation)

    def readout(self, hidden: HiddenBSD) -> LogitsBPV:
        """Final norm and head: [B, P, D] → [B, P, V]."""
        return self.model.get_submodule("lm_head")(self.decoder.get_submodule("norm")(hidden))

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
            ffn_matrices=3 if hasattr(self._part(self.layers[0], "mlp"), "gate_proj") else 2,
        )

    def attention_layer(self, layer: nn.Module) -> AttentionLayer:
        """A decoder layer taken apart. Raises UnsupportedModel naming the submodule that is missing.

        This form fits Llama, Mistral, Qwen2 and Qwen3: norm, attention, residual; norm, FFN, residual; biases and norms
        of the heads where the model has them.
        """
        attention = self._part(layer, "self_attn")
        query, key, value = (self._part(attention, name) for name in ("q_proj", "k_proj", "v_proj"))
        query_norm, key_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
        after, feed_forward = self._part(layer, "post_attention_layernorm"), self._part(layer, "mlp")
        width = attention.head_dim

        def finish(residual: Tensor, attended: Tensor) -> Tensor:
            middle = residual + attended
            return middle + feed_forward(after(middle))

        return AttentionLayer(
            norm=self._part(layer, "input_layernorm"),
            query=lambda rows: _heads(query(rows), width, query_norm),
            key=lambda rows: _heads(key(rows), width, key_norm),
            value_weight=value.weight,
            value_bias=value.bias,
            output=self._part(attention, "o_proj"),
            finish=finish,
            key_heads=value.weight.shape[0] // width,
            scaling=attention.scaling,
        )

    def _part(self, module: nn.Module, name: str) -> Any:
        part = getattr(module, name, None)
        if part is None:
            raise UnsupportedModel(
                f"{type(module).__name__} has no {name!r}: {self.family} cannot be taken apart; use saliency 'autograd'"
            )
        return part

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, S, head_dim] for position ids [B, S]."""
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids)

    def placeholder_ids(self) -> tuple[int, ...]:
        """Token ids that stand for visual tokens in `input_ids`."""
        config = self.model.config
        ids = (getattr(config, "image_token_id", None), getattr(config, "video_token_id", None))
        return tuple(token for token in ids if token is not None)

    def visual_tokens(self, input_ids: Tensor) -> MaskBS:
        """[B, S], True at visual tokens."""
        return torch.isin(input_ids, torch.tensor(self.placeholder_ids(), device=input_ids.device))


def _heads(projected: Tensor, width: int, norm: nn.Module | None) -> Tensor:
    """[B, S, heads · E] → [B, S, heads, E], normed by head where the model does so."""
    heads = projected.unflatten(-1, (-1, width))
    return heads if norm is None else norm(heads)
