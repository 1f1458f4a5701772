"""A step on a cache that a prefill filled: no stage runs, and each layer sees the tokens that its cache holds."""

from typing import Any

from torch import Tensor, nn

from trio_core.engine.cache import check_as_left
from trio_core.engine.calls import Kwargs, cache_of
from trio_core.engine.frames import Frame
from trio_core.engine.passes import Pass, Setup
from trio_core.errors import UnsupportedInput
from trio_core.tensors import HiddenBSD, LeftBSD

_PICTURES = ("pixel_values", "image_hidden_states", "image_outputs", "video_outputs")
"""How the arguments begin that bring a picture or a video."""


class Decode(Pass):
    """One forward on a cache that holds tokens already.

    cached: tokens of the sequence before this step, dropped ones included.
    """

    def __init__(self, setup: Setup, frames: dict[int, Frame], cached: int):
        super().__init__(setup, frames, prunes=bool(frames))
        self.cached = cached

    @classmethod
    def resume(cls, setup: Setup, inputs: dict[str, Any], frames: dict[int, Frame]) -> "Decode":
        """The step that continues a cache. It reads no tensor, because each decode step passes here.

        inputs: the arguments of the model's forward. frames: of the prefill that filled the cache.

        Raises UnsupportedInput for a cache that is not as that prefill left it, and for a later picture.
        """
        # Asked of the features, not of the ids: a model may well write a placeholder's id itself.
        for name, value in inputs.items():
            if value is not None and (name.startswith(_PICTURES) or (name == "mm_encoder_outputs" and value)):
                raise UnsupportedInput(
                    f"{name} behind a prompt that is cached already: a later picture is not pruned; pass the whole "
                    "conversation at once"
                )
        cached = check_as_left(cache_of(inputs), frames, setup.num_layers)
        mask, ids = inputs.get("attention_mask"), inputs.get("input_ids")
        new = ids if ids is not None else inputs["inputs_embeds"]
        if isinstance(mask, Tensor) and mask.ndim == 2 and mask.shape[1] != cached + new.shape[1]:
            raise UnsupportedInput(
                f"attention_mask of {mask.shape[1]} tokens for a cache of {cached} and {new.shape[1]} new ones: pass a "
                "mask of all tokens, and a cache that was not rebuilt from a pruned one"
            )
        return cls(setup, frames, cached)

    def enter(self, index: int, layer: nn.Module, hidden: HiddenBSD, kwargs: Kwargs) -> tuple[LeftBSD, Kwargs]:
        """The step's own tokens, and masks and positions cut to what layer `index` holds."""
        del layer
        frame = self.frames.get(index)
        return self.add(index, hidden, None), self.cut(kwargs, frame, hidden, index)

    def length(self, queries: int | Tensor) -> int:
        """Tokens before this step, and the step's own."""
        return self.cached + int(queries)

    def place(self, positions: Tensor, frame: Frame) -> Tensor:
        """[B, Q]: the position ids of the step's tokens, less the tokens that their sample dropped."""
        return positions - frame.on(positions.device).dropped[:, None]
