"""Gemma 3, Gemma 4 and PaliGemma.

From Gemma 2 on, a layer also has norms behind its attention and its FFN.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.grid_tower import Grid
from trio_core.models.layer import part
from trio_core.rules.cost import LayerShape
from trio_core.tensors import HiddenBSD, LogitsBPV


class Gemma(Adapter):
    """A Gemma decoder of any generation. Its layers show which one it is."""

    limits_logits: ClassVar[bool] = True
    """Whether the class limits its logits where its text model names a limit."""
    norms = ("post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")  # from Gemma 2 on

    def head(self, normed: HiddenBSD) -> LogitsBPV:
        """Head, and the limit of the logits if the model has one: [B, P, D] → [B, P, V]."""
        logits = super().head(normed)
        limit = getattr(self.model.config.get_text_config(), "final_logit_softcapping", None)
        return logits if limit is None or not self.limits_logits else (logits / limit).tanh() * limit


class Gemma3(Gemma):
    """Gemma 3: five layers with a sliding window, then one without, and so on.

    The two kinds of layers have different rotary frequencies.
    """

    family: ClassVar[str] = "Gemma 3"
    classes: ClassVar[tuple[str, ...]] = ("Gemma3ForConditionalGeneration",)
    limits_logits: ClassVar[bool] = False
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
    toy_types_name: ClassVar[str] = "token_type_ids"

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:
        """Cosines and sines for the kind of layer that `index` is. The arguments are Adapter's."""
        kind = self.model.config.get_text_config().layer_types[index]
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids, kind)


class Gemma4(Gemma3):
    """Gemma 4 without shared keys and without inputs of each layer's own: the 31B and the 26B-A4B model.

    Values have a norm without a scale. In layers without a window they may be made of the keys' projection. A layer may
    have experts beside its FFN.
    """

    family: ClassVar[str] = "Gemma 4"
    classes: ClassVar[tuple[str, ...]] = ("Gemma4ForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("gemma4_text",)
    limits_logits: ClassVar[bool] = True
    sizing: ClassVar[str] = "keeps a picture's shape, with as many tokens as its processor names (max_soft_tokens)"
    # Patches of 4 × 4 pixels, of which 2 × 2 become one token.
    toy_vision: ClassVar[dict[str, Any]] = {
        **toy.VISION,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "pooling_kernel_size": 2,
        "position_embedding_size": 64,
    }
    toy_text: ClassVar[dict[str, Any]] = {
        **{name: value for name, value in Gemma3.toy_text.items() if name != "query_pre_attn_scalar"},
        "global_head_dim": 8,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": toy.VOCABULARY,
        "use_bidirectional_attention": "vision",
        "final_logit_softcapping": 10.0,
    }
    toy_options: ClassVar[dict[str, Any]] = {
        "image_token_id": toy.IMAGE,
        "video_token_id": toy.VIDEO,
        "tie_word_embeddings": False,
    }
    toy_types_name: ClassVar[str] = "mm_token_type_ids"

    def __init__(self, model: PreTrainedModel):
        super().__init__(model)
        if model.config.get_text_config().hidden_size_per_layer_input:
            raise UnsupportedModel(
                f"{type(model).__name__}: each decoder layer has an input of its own for every token "
                "(hidden_size_per_layer_input), so no token can be dropped; choose Gemma 4 31B or 26B-A4B"
            )

    def finish(self, layer: nn.Module, residual: Tensor, attended: Tensor) -> Tensor:
        """Gemma's, times a number of the layer."""
        return super().finish(layer, residual, attended) * part(layer, "layer_scalar")

    def feed_forward(self, layer: nn.Module, norm: nn.Module, ffn: nn.Module, rows: Tensor) -> Tensor:
        """The FFN and, in a layer that has some, the experts: [B, P, D]."""
        made = super().feed_forward(layer, norm, ffn, rows)
        if not part(layer, "enable_moe_block"):
            return made
        flat = rows.flatten(0, 1)
        _, weights, index = part(layer, "router")(flat)
        experts = part(layer, "experts")(part(layer, "pre_feedforward_layernorm_2")(flat), index, weights)
        experts = part(layer, "post_feedforward_layernorm_2")(experts.view_as(rows))
        return part(layer, "post_feedforward_layernorm_1")(made) + experts

    @property
    def layer_shape(self) -> LayerShape:
        """The widths of a layer with a window. The experts of a token count as a part of its FFN."""
        shape, config = super().layer_shape, self.model.config.get_text_config()
        experts = (config.top_k_experts or 0) * (config.moe_intermediate_size or 0) if config.enable_moe_block else 0
        return replace(shape, intermediate=shape.intermediate + experts, values_normed=True)

    def grids(self, inputs: dict[str, Any], tokens: Sequence[int]) -> list[Grid]:  # noqa: ARG002
        """The grids of pictures of any shape, from the places of their patches. The arguments are Adapter's."""
        side = self.model.config.vision_config.pooling_kernel_size
        places = inputs["image_position_ids"] if "image_position_ids" in inputs else inputs["video_position_ids"]
        largest = (places.amax(dim=1) + 1) // side
        return [Grid(rows, columns) for columns, rows in largest.tolist()]

    def listen(self) -> list[Any]:
        """A hook that leaves the last rows of the decoder's output, as many as the caller wants logits of.

        The model itself leaves them only where the output is as long as the prompt.
        """

        def cut(_decoder: nn.Module, _args: Any, kwargs: dict[str, Any], output: Any) -> None:
            wanted = kwargs.get("logits_to_keep", 0)
            if isinstance(wanted, int) and wanted:
                output["last_hidden_state"] = output.last_hidden_state[:, -wanted:]

        return [self.decoder.register_forward_hook(cut, with_kwargs=True)]

    @classmethod
    def toy_picture(cls, random: toy.Random, size: toy.Size) -> toy.ToyPicture:
        """A picture of 6 × 10 patches, or of 4 × 6 that are padded to as many."""
        height, width = (6, 10) if size == "large" else (4, 6)
        places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).flip(-1)  # x and y of each patch
        places = torch.nn.functional.pad(places, (0, 0, 0, 60 - len(places)), value=-1)
        pixels = random.pixels(1, 60, 3 * 4 * 4)
        return toy.ToyPicture(
            {"pixel_values": pixels, "image_position_ids": places[None]}, [toy.IMAGE] * (height * width // 4)
        )


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
