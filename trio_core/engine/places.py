"""The output of a pruned pass, put back at the places of the full sequence, so that no caller can misread it.

Rows of tokens that were dropped, and of padding, are NaN. B batch, S the full sequence, T what is left of it.
"""

from typing import Any

import torch
from torch import Tensor

from trio_core.engine.frames import Frame
from trio_core.engine.passes import Pass
from trio_core.errors import UnsupportedModel


def at_places(rows: Tensor, frame: Frame) -> Tensor:
    """[B, T, …] → [B, S, …], NaN where no valid token is left. Gradients flow to the rows of valid tokens.

    rows: the last ones of the frame's tokens, or all of them.
    """
    frame = frame.on(rows.device)
    index, valid = (part[:, -rows.shape[1] :] for part in (frame.index, frame.valid))
    if frame.hides:
        rows = rows.masked_fill(~valid.view(*valid.shape, *[1] * (rows.ndim - 2)), torch.nan)
    full = rows.new_full((len(rows), frame.full_length, *rows.shape[2:]), torch.nan)
    full[torch.arange(len(rows), device=rows.device)[:, None], index] = rows
    return full


class HeadAtPlaces:
    """A model's head, whose logits are put at the places of the prompt before the model computes a loss from them.

    It listens from a prefill's last layer on until the head has run.
    """

    def __init__(self, model: Any):
        self.model = model
        self._handle: Any = None

    def listen(self, frame: Frame, last: int) -> None:
        """Wait for the head to run on the frame's tokens. last: how many last places the caller asked for; 0: all."""
        self.frame, self.last = frame, last
        hook = torch.compiler.disable(self._after_head)  # traced, it would fix one prompt's sizes
        self._handle = self.model.get_output_embeddings().register_forward_hook(hook)

    def forget(self) -> None:
        """Wait no longer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def check_ran(self) -> None:
        """Raise UnsupportedModel where the model made its logits without a call of its head."""
        if self._handle is not None:
            raise UnsupportedModel(
                f"{type(self.model).__name__} made its logits or its loss past its head, so that they are not at their "
                "places in the prompt: pass logits_to_keep=1 and no labels"
            )

    def _after_head(self, _head: Any, _args: Any, logits: Tensor) -> Tensor:
        if self._handle is None:
            return logits  # compiled code calls a hook that is gone
        self.forget()
        width = self.frame.index.shape[1]
        expected = min(self.last, width) if self.last else width
        if logits.ndim != 3 or logits.shape[1] != expected:
            raise UnsupportedModel(
                f"the head gave logits of shape {tuple(logits.shape)} for {expected} tokens: they have no places in "
                "the prompt; pass logits_to_keep=1"
            )
        full = at_places(logits, self.frame)
        return full[:, -self.last :] if self.last else full


def hidden_at_places(states: tuple[Tensor | None, ...], frames: dict[int, Frame]) -> tuple[Tensor | None, ...]:
    """`hidden_states` of a prefill: the input of layer 1, then the output of each layer, over all places.

    A state that was not asked for is None. Raises UnsupportedModel where they are other tensors than these.
    """
    full = []
    for number, state in enumerate(states):
        frame = frames.get(max(number - 1, 0))
        if frame is not None and state is not None and state.shape[1] != frame.index.shape[1]:
            raise UnsupportedModel(
                f"hidden_states[{number}] has {state.shape[1]} rows, and layer {max(number, 1)} saw "
                f"{frame.index.shape[1]} tokens: leave output_hidden_states out"
            )
        full.append(state if frame is None or state is None else at_places(state, frame))
    return tuple(full)


def attention_at_places(maps: tuple[Tensor | None, ...], now: Pass) -> tuple[Tensor | None, ...]:
    """`attentions` of a pass, [B, H, Q, K] a layer, over the keys of the full sequence: a dropped token gets 0."""
    full = []
    for index, weights in enumerate(maps):
        frame = now.frames.get(index)
        if frame is None or weights is None:
            full.append(weights)
            continue
        frame, length = frame.on(weights.device), now.length(weights.shape[2])
        later = torch.arange(frame.full_length, length, device=weights.device).expand(len(weights), -1)
        # A layer with a sliding window holds the last keys only.
        keys = torch.cat([frame.index, later], dim=1)[:, -weights.shape[-1] :]
        every = weights.new_zeros(*weights.shape[:3], length)
        every.scatter_(3, keys[:, None, None, :].expand_as(weights), weights)
        full.append(at_places(every.transpose(1, 2), frame).transpose(1, 2) if now.is_prefill else every)
    return tuple(full)


def restore(output: Any, now: Pass) -> None:
    """Put the hidden states and the attention maps in a decoder's output back at their places, in place."""
    if now.is_prefill and getattr(output, "hidden_states", None):
        output["hidden_states"] = hidden_at_places(output.hidden_states, now.frames)
    if getattr(output, "attentions", None):
        output["attentions"] = attention_at_places(output.attentions, now)
