"""Gemma 3 and PaliGemma: norms that count their weight from one and, from Gemma 2 on, stand after a block as well."""

from typing import ClassVar

import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn
from transformers import PreTrainedConfig

from trio_core.models import toy
from trio_core.models.adapter import Adapter
from trio_core.models.layer import part
from trio_core.tensors import HiddenBSD, LogitsBPV


class Gemma(Adapter):
    """A Gemma decoder of any generation, as its layers show."""

    def finish(self, layer: nn.Module, residual: Tensor, attended: Tensor) -> Tensor:
        """From Gemma 2 on, a norm after attention and FFN as well as before."""
        if not hasattr(layer, "pre_feedforward_layernorm"):
            return super().finish(layer, residual, attended)
        after_attention, before, ffn, after = (
            part(layer, name)
            for name in ("post_attention_layernorm", "pre_feedforward_layernorm", "mlp", "post_feedforward_layernorm")
        )
        middle = residual + after_attention(attended)
        return middle + after(ffn(before(middle)))


class Gemma3(Gemma):
    """Gemma 3: five layers with a sliding window to one without, each kind with rotary frequencies of its own."""

    family: ClassVar[str] = "Gemma 3"
    classes: ClassVar[tuple[str, ...]] = ("Gemma3ForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("gemma3_text",)

    def rotary(self, hidden: HiddenBSD, position_ids: Tensor, index: int = 0) -> tuple[Tensor, Tensor]:
        """As the kind of layer `index` has them."""
        kind = self.model.config.get_text_config().layer_types[index]
        return self.decoder.get_submodule("rotary_emb")(hidden, position_ids, kind)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """Two layers with a window, wider than any toy input, to one without."""
        from transformers import Gemma3Config, Gemma3TextConfig, SiglipVisionConfig

        text = Gemma3TextConfig(
            **toy.TEXT,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=256,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        )
        return Gemma3Config(
            vision_config=SiglipVisionConfig(**toy.VISION, vision_use_head=False),  # pyright: ignore[reportCallIssue]
            text_config=text,
            image_token_index=toy.IMAGE,
            mm_tokens_per_image=16,
            tie_word_embeddings=False,
        )


LIMITS_LOGITS_FROM = (5, 23)
"""The release of transformers from which on PaliGemma's logits have Gemma 2's limit; before it they went without."""


class PaliGemma(Gemma):
    """PaliGemma: the picture comes first, and the whole prompt sees all of itself."""

    family: ClassVar[str] = "PaliGemma"
    classes: ClassVar[tuple[str, ...]] = ("PaliGemmaForConditionalGeneration",)
    decoders: ClassVar[tuple[str, ...]] = ("gemma", "gemma2")

    def beside(self, ids: Tensor, prompt: int) -> dict[str, Tensor]:
        """Which tokens are the prompt, that sees all of itself: 0; and which come after: 1."""
        return {"token_type_ids": (torch.arange(ids.shape[1], device=ids.device) >= prompt).long().expand_as(ids)}

    def readout(self, hidden: HiddenBSD) -> LogitsBPV:
        """With Gemma 2's limit of the logits where the model as it is installed has one."""
        logits = super().readout(hidden)
        limit = getattr(self.model.config.get_text_config(), "final_logit_softcapping", None)
        limited = Version(transformers.__version__).release >= LIMITS_LOGITS_FROM
        return logits if limit is None or not limited else (logits / limit).tanh() * limit

    @classmethod
    def toy_text(cls) -> PreTrainedConfig:
        """Gemma 1."""
        from transformers import GemmaConfig

        return GemmaConfig(**toy.TEXT, head_dim=8)

    @classmethod
    def toy_config(cls) -> PreTrainedConfig:
        """16 tokens a picture."""
        from transformers import PaliGemmaConfig, SiglipVisionConfig

        return PaliGemmaConfig(
            vision_config=SiglipVisionConfig(**toy.VISION, vision_use_head=False),  # pyright: ignore[reportCallIssue]
            text_config=cls.toy_text(),
            image_token_index=toy.IMAGE,
            projection_dim=toy.TEXT["hidden_size"],
            hidden_size=toy.TEXT["hidden_size"],
            vocab_size=toy.VOCABULARY,
            tie_word_embeddings=False,
        )


class PaliGemma2(PaliGemma):
    """PaliGemma 2: the same class with Gemma 2 for its text, so with sandwich norms and limited scores and logits."""

    family: ClassVar[str] = "PaliGemma 2"
    toy_attention: ClassVar[tuple[str, ...]] = ("eager",)  # sdpa cannot limit scores, and the library refuses it

    @classmethod
    def toy_text(cls) -> PreTrainedConfig:
        """Limits that the toy's scores and logits come near; a window wider than any toy input."""
        from transformers import Gemma2Config

        return Gemma2Config(
            **toy.TEXT,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=256,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=10.0,
        )
