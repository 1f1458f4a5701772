"""Gemma 3 and PaliGemma.

Their norms multiply by 1 + weight. From Gemma 2 on, a layer also has norms behind its attention and its FFN.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.layer import feed_forward, part
from trio_core.tensors import HiddenBSD, LogitsBPV


class Gemma(Adapter):
    """A Gemma decoder of any generation. Its layers show which one it is."""

    def finish(self, layer: nn.Module, residual: Tensor, attended: Tensor) -> Tensor:
        """From Gemma 2 on, a norm before and behind both attention and FFN."""
        if not hasattr(layer, "pre_feedforward_layernorm"):
            return super().finish(layer, residual, attended)
        after_attention, before, ffn, after = (
            part(layer, name)
            for name in ("post_attention_layernorm", "pre_feedforward_layernorm", "mlp", "post_feedforward_layernorm")
        )
        middle = residual + after_attention(attended)
        return middle + after(feed_forward(before, ffn, middle))


class Gemma3(Gemma):
    """Gemma 3: five layers with a sliding window, then one without, and so on.

    The two kinds of layers have different rotary frequencies.
    """

    family: ClassVar[str] = "Gemma 3"
    classes: ClassVar[tuple[str, ...]] = ("Gemma3ForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("gemma3_text",)
    toy_vision: ClassVar[dict[str, Any]] = toy.SIGLIP
    # Two layers with a sliding window, then one without. The window is wider than any toy sample.
    toy_text: ClassVar[dict[str, Any]] = {
        **toy.TEXT,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 256,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    }
    toy_options: ClassVar[dict[str, Any]] = {
        "image_token_index": toy.IMAGE,
        "mm_tokens_per_image": 16,
        "tie_word_embeddings": False,
    }

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:
        """Cosines and sines for the kind of layer that `index` is. The arguments are Adapter's."""
        kind = self.model.config.get_text_config().layer_types[index]
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids, kind)

    @classmethod
    def toy_token_types(cls, ids: Tensor) -> dict[str, Tensor]:
        """1 for the tokens of a picture, which all see each other; 0 for words."""
        return {"token_type_ids": (ids == toy.IMAGE).long()}


class PaliGemma(Gemma):
    """PaliGemma: the picture comes first, and all tokens of the prompt see each other."""

    family: ClassVar[str] = "PaliGemma"
    classes: ClassVar[tuple[str, ...]] = ("PaliGemmaForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("gemma", "gemma2")
    processors: ClassVar[tuple[str, ...]] = ("PaliGemmaProcessor",)
    toy_vision: ClassVar[dict[str, Any]] = toy.SIGLIP
    toy_text: ClassVar[dict[str, Any]] = {**toy.TEXT, "model_type": "gemma", "head_dim": 8}
    toy_options: ClassVar[dict[str, Any]] = {
        "image_token_index": toy.IMAGE,
        "vocab_size": toy.VOCABULARY,
        "tie_word_embeddings": False,
        "projection_dim": toy.TEXT["hidden_size"],
        "hidden_size": toy.TEXT["hidden_size"],
    }

    def extra_inputs(self, ids: Tensor, prompt_length: int) -> dict[str, Tensor]:
        """`token_type_ids`: 0 for the prompt, 1 for generated tokens. The arguments are Adapter's."""
        generated = torch.arange(ids.shape[1], device=ids.device) >= prompt_length
        return {"token_type_ids": generated.long().expand_as(ids)}

    def head(self, normed: HiddenBSD) -> LogitsBPV:
        """Head, and the limit of the logits where the model has one: [B, P, D] → [B, P, V]."""
        logits = super().head(normed)
        limit = getattr(self.model.config.get_text_config(), "final_logit_softcapping", None)
        return logits if limit is None else (logits / limit).tanh() * limit

    @classmethod
    def plain_prompt(cls, pictures: Sequence[str], prompt: str) -> str:
        """The pictures and then the question, without any word between them. The arguments are Adapter's."""
        return "".join(pictures) + prompt

    @classmethod
    def toy_prompt(cls, before: list[int], picture: list[int], after: list[int]) -> list[int]:
        """The picture stands before all words."""
        return picture + before + after

    @classmethod
    def toy_token_types(cls, ids: Tensor) -> dict[str, Tensor]:
        """0 everywhere, because all of it is the prompt."""
        return {"token_type_ids": torch.zeros_like(ids)}


class PaliGemma2(PaliGemma):
    """PaliGemma 2: PaliGemma's class with Gemma 2 as its text model, which limits attention scores and logits."""

    family: ClassVar[str] = "PaliGemma 2"
    toy_attention: ClassVar[tuple[str, ...]] = ("eager",)  # transformers refuses sdpa, which cannot limit scores
    # Limits near the toy's own scores and logits, and a window wider than any toy sample.
    toy_text: ClassVar[dict[str, Any]] = {
        **toy.TEXT,
        "model_type": "gemma2",
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 256,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 10.0,
    }
