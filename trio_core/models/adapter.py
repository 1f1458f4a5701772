"""What pruning needs to know of a model family, and nothing else."""

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS

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
