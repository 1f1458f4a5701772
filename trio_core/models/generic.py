"""The adapter of a model class that no file here names. It finds the parts by the model's structure."""

from typing import cast

from torch import nn
from transformers import PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.models.adapter import Adapter, adapters
from trio_core.tensors import HiddenBSD, LogitsBPV


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
        for part in ("layers", "norm", "rotary_emb"):
            if not hasattr(self.decoder, part):
                raise self._without(f"its decoder {type(self.decoder).__name__} has no {part!r}")
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
