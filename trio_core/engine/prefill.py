"""A prefill: at each stage the method selects, its selection is checked, and the tokens that it drops leave."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask

from trio_core.engine.calls import Kwargs, without_cache
from trio_core.engine.frames import Frame, renumbered, shrink, take_rows
from trio_core.engine.passes import Pass, Setup
from trio_core.engine.prompt import Prompt
from trio_core.errors import TrioError, UnsupportedInput, UnsupportedModel
from trio_core.methods.combined import method_name
from trio_core.methods.method import blamed
from trio_core.methods.view import Embeddings, Picture, Selection, Signal, View, last_rows
from trio_core.models.layer import extra_behaviour, gradients_checked
from trio_core.rules.attention import LayerCall
from trio_core.spans import ORDER_CHECK, span
from trio_core.tensors import HiddenBSD, LeftBSD, differentiable
from trio_core.trace import StageTrace, Trace


@dataclass
class OrderCheck:
    """Checks that kept indices ascend from 0 to N − 1.

    On the CPU a fault raises at once. On CUDA the answers are copied to the host asynchronously. They are read once the
    copy is done, at the latest at the next prefill (where the host waits anyway) or when the context closes.
    """

    _copies: list[tuple[Tensor, torch.cuda.Event, str]] = field(default_factory=list)

    def hold(self, kept: Tensor, count: int, message: str) -> Tensor:
        """The kept indices; on CUDA clamped to 0 … N − 1, because an index out of range would break its context.

        kept: [K]. count: N. message: the error's text, should the indices not ascend.

        Raises TrioError with the message, on CUDA later (`settle`).
        """
        if kept.is_meta:
            return kept
        if not kept.is_cuda:
            # numpy, so that counters of torch's operators and host waits see only what also runs on a GPU.
            if (np.diff(kept.numpy(force=True), prepend=-1, append=count) <= 0).any():
                raise TrioError(message)
            return kept
        edges = F.pad(F.pad(kept, (1, 0), value=-1), (0, 1), value=count)
        host, copied = torch.empty((), dtype=torch.bool, pin_memory=True), torch.cuda.Event()
        host.copy_((edges.diff() <= 0).any(), non_blocking=True)
        copied.record(torch.cuda.current_stream(kept.device))
        self._copies.append((host, copied, message))
        return kept.clamp(0, max(count - 1, 0))

    def settle(self, *, wait: bool) -> None:
        """Read the answers that have arrived. wait: wait for the others too.

        Raises TrioError with the message of the first selection that did not ascend.
        """
        while self._copies and (wait or self._copies[0][1].query()):
            host, copied, message = self._copies.pop(0)
            copied.synchronize()
            if host:
                raise TrioError(message)


class Prefill(Pass):
    """One forward that fills an empty cache, or that has none.

    pictures: where the visual tokens stand now, one for each sample; empty where there are none.
    lengths[b]: tokens left in sample b, text included.
    logits_asked: how many last places the caller wants logits of; 0 for all.
    misses_logits: whether the model computes no logits at some of these places.
    embeddings: what entered the decoder, for a method that asks for it.
    previous: the layer that has just run, for a method that asks for it.
    """

    is_prefill: ClassVar[bool] = True

    def __init__(self, setup: Setup, prompt: Prompt, trace: Trace, order: OrderCheck, logits_asked: int):
        super().__init__(setup, {}, prunes=prompt.prunes)
        self.whole = prompt.frame
        self.pictures = prompt.pictures
        self.lengths = prompt.lengths
        self.logits_asked = logits_asked
        self.misses_logits = prompt.prunes and not 0 < logits_asked <= prompt.text_at_end
        self.trace = trace
        self.order = order
        self.stage_layers = {layer for picture in prompt.pictures for layer in picture.schedule.layers}
        self.embeddings: tuple[Embeddings, ...] = ()
        self.previous: LayerCall | None = None

    def enter(self, index: int, layer: nn.Module, hidden: HiddenBSD, kwargs: Kwargs) -> tuple[LeftBSD, Kwargs]:
        """Run the stage that stands before this layer, if there is one, and cut the layer's masks and positions."""
        needs, frame = self.setup.method.needs, self.frames.get(index - 1)
        hidden = self.add(index, hidden, frame)
        if index == 0 and self.pictures and Signal.EMBEDDINGS in needs:
            self.embeddings = self._embeddings(hidden, self.whole)
        if index in self.stage_layers:
            hidden, frame = self._stage(index, layer, hidden.to(device_of(layer, hidden)), frame, kwargs)
            if index == 0 and self.embeddings and frame is not None and len(self.stage_layers) > 1:
                self.embeddings = self._embeddings(hidden, frame)  # later stages see what a stage before layer 1 left
        if frame is not None:
            self.frames[index] = frame
        cut = self.cut(kwargs, frame, hidden, index)
        if Signal.LAYERS in needs and index + 1 in self.stage_layers:
            self.previous = self._call(layer, hidden.to(device_of(layer, hidden)), cut)
        return hidden, cut

    def length(self, queries: int | Tensor) -> int:
        """Tokens of the prompt."""
        del queries
        return self.whole.full_length

    def place(self, positions: Tensor, frame: Frame) -> Tensor:
        """[B, T]: the position ids of the tokens left, original or renumbered. Some layers get them as [3, B, T]."""
        frame = frame.on(positions.device)
        if self.setup.positions == "original":
            index = frame.index.expand(*positions.shape[:-2], -1, -1)
            return positions.expand(*index.shape[:-1], -1).gather(-1, index)
        return renumbered(frame, positions, self.whole.on(positions.device).valid)

    def _stage(
        self, boundary: int, layer: nn.Module, hidden: HiddenBSD, frame: Frame | None, kwargs: Kwargs
    ) -> tuple[LeftBSD, Frame | None]:
        """Select and drop. Returns the residual stream and the frame of the layers after `boundary`."""
        current = (frame or self.whole).on(hidden.device)
        pictures = tuple(p.at_stage(boundary, hidden.device) for p in self.pictures)
        if all(p.budget == len(p.rows) for p in pictures):
            self._record(boundary, tuple(p.number for p in pictures), None, pictures)
            return hidden, frame
        with span("selection"), torch.no_grad(), blamed(type(self.setup.method)):
            selection = self.setup.method.select(self._view(boundary, layer, hidden, frame, pictures, kwargs))
        selection = self._check(boundary, selection, pictures, int(hidden.shape[-1]))
        with span("compaction"):
            self.lengths = [n - len(p.rows) + p.budget for n, p in zip(self.lengths, pictures, strict=True)]
            rows, smaller, self.pictures = shrink(current, pictures, selection.kept, self.lengths)
            self.trace.left = smaller.places
            hidden = take_rows(hidden, rows)
            if selection.features is not None:
                for sample, (picture, merged) in enumerate(zip(self.pictures, selection.features, strict=True)):
                    hidden[sample, picture.rows] = self._without_gradient(merged.to(hidden.dtype), hidden)
        numbers = tuple(p.number[kept] for p, kept in zip(pictures, selection.kept, strict=True))
        self._record(boundary, numbers, selection, pictures)
        return hidden, smaller

    def _view(
        self,
        boundary: int,
        layer: nn.Module,
        hidden: HiddenBSD,
        frame: Frame | None,
        pictures: tuple[Picture, ...],
        kwargs: Kwargs,
    ) -> View:
        """The view of the method at the stage after layer `boundary`."""
        adapter, needs = self.setup.adapter, self.setup.method.needs
        signals: dict[Signal, Any] = {Signal.EMBEDDINGS: self.embeddings} if Signal.EMBEDDINGS in needs else {}
        if Signal.LAYERS in needs:
            next_call = self._call(layer, hidden, self.cut(kwargs, frame, hidden, boundary))
            calls = {"next": next_call, "current": self.previous}
            signals[Signal.LAYERS] = {probe: call for probe, call in calls.items() if call is not None}
        if Signal.READOUT in needs:
            signals[Signal.READOUT] = adapter.readout
        if Signal.NORM in needs:
            signals[Signal.NORM] = adapter.final_norm
        for signal in {Signal.ENCODER, Signal.PIXELS} & needs if boundary == 0 else ():
            self.setup.tower.take_entering(hidden, [picture.rows for picture in pictures])
            signals[signal] = self.setup.tower.collect([len(picture.rows) for picture in pictures])
        valid = (frame or self.whole).on(hidden.device).valid
        padded = bool(min(self.lengths) < hidden.shape[1])  # a tracer's sizes are tensors
        return View(boundary, hidden, valid, padded, pictures, signals)

    def _without_gradient(self, merged: Tensor, hidden: HiddenBSD) -> Tensor:
        """Merged features, which a selection computes without a graph. A backward pass that reaches them raises."""
        if not (torch.is_grad_enabled() and hidden.requires_grad):
            return merged
        message = (
            f"method {self.setup.method.name!r} merges tokens, and its merged features have no gradient: train with a "
            "method that drops tokens"
        )
        return cast(Tensor, _NoGradient.apply(merged, hidden, message))

    def _embeddings(self, hidden: HiddenBSD, frame: Frame) -> tuple[Embeddings, ...]:
        """The embeddings that enter the decoder, for each sample. frame: of `hidden`."""
        padded, frame = bool(min(self.lengths) < hidden.shape[1]), frame.on(hidden.device)
        return tuple(
            Embeddings(
                hidden[sample, picture.rows.to(hidden.device)],
                hidden[sample, last_rows(frame.valid[sample : sample + 1], picture.text_after, padded=padded)[0]],
            )
            for sample, picture in enumerate(self.pictures)
        )

    def _check(self, boundary: int, selection: Selection, pictures: Sequence[Picture], width: int) -> Selection:
        """Hold the method to its budgets, to ascending indices and to the width of merged features."""
        method = f"method {method_name(type(self.setup.method))!r}"
        if not isinstance(selection, Selection):
            raise TrioError(f"{method} returned {type(selection).__name__} from `select`: return a trio_core.Selection")
        if len(selection.kept) != len(pictures):
            raise TrioError(f"{method} selected for {len(selection.kept)} samples of a batch of {len(pictures)}")
        held = []
        for sample, (kept, picture) in enumerate(zip(selection.kept, pictures, strict=True)):
            count, place = len(picture.rows), f"in sample {sample}, after layer {boundary}"
            if not isinstance(kept, Tensor) or kept.dtype != torch.int64:
                kind = kept.dtype if isinstance(kept, Tensor) else type(kept).__name__
                raise TrioError(f"{method} kept indices of type {kind} {place}: give a tensor of torch.int64")
            if len(kept) != picture.budget:
                raise TrioError(f"{method} kept {len(kept)} of {count} tokens {place}; its budget is {picture.budget}")
            fault = f"{method} kept indices that do not ascend from 0 to {count - 1} {place}; sort them, each once"
            with span(ORDER_CHECK):
                held.append(self.order.hold(kept, count, fault))
        if selection.features is not None:
            shapes = [tuple(merged.shape) for merged in selection.features]
            if shapes != (expected := [(picture.budget, width) for picture in pictures]):
                raise TrioError(
                    f"{method} gave features of shapes {shapes} after layer {boundary}; expected are {expected}"
                )
        return replace(selection, kept=tuple(held))

    def _record(
        self, layer: int, kept: tuple[Tensor, ...], selection: Selection | None, pictures: Sequence[Picture]
    ) -> None:
        """Write the stage into the trace. What takes work is done when someone asks the trace.

        selection: None where nothing was to be dropped.
        """
        rating = destinations = None
        if selection is not None:
            self.trace.add_notes(*selection.notes)
            if selection.scores is not None:
                rating = partial(_all_on_picture, selection.scores, pictures, torch.nan)
            if selection.merged is not None:
                destinations = partial(_destinations, selection.merged, pictures)
        merges = selection is not None and selection.features is not None
        before, after = max(len(p.rows) for p in pictures), max(len(numbers) for numbers in kept)
        self.trace.stages.append(StageTrace(layer, before, after, kept, rating, merges, destinations))

    def _call(self, layer: nn.Module, hidden: HiddenBSD, kwargs: Kwargs) -> LayerCall:
        """The layer on its input, to be run again or taken apart, past its hooks and its cache."""
        adapter, mask = self.setup.adapter, kwargs.get("attention_mask")
        mask = mask.to(hidden.device) if isinstance(mask, Tensor) else mask
        cos, sin = (adapter.in_halves(part.to(hidden.device)) for part in kwargs["position_embeddings"])
        parts, extra = partial(adapter.attention_layer, layer), partial(extra_behaviour, layer, hidden, adapter.known)
        run = partial(_run, layer, without_cache(kwargs))
        return LayerCall(hidden, run, parts, (cos, sin), mask, adapter.causal, extra)


class _NoGradient(torch.autograd.Function):
    """The identity on values without a graph; its backward raises UnsupportedInput instead of losing a gradient."""

    @staticmethod
    def forward(ctx: Any, merged: Tensor, hidden: Tensor, message: str) -> Tensor:
        """[K, D] merged, as it is. hidden makes the result a part of the graph."""
        del hidden
        ctx.message = message
        return merged.clone()

    @staticmethod
    def backward(ctx: Any, *_slopes: Tensor) -> Any:
        """Always raises."""
        raise UnsupportedInput(ctx.message)


def _all_on_picture(values: Sequence[Tensor], pictures: Sequence[Picture], absent: int | float) -> tuple[Tensor, ...]:
    """For each sample [V0], its values [N] on the picture's own numbering; `absent` for a token dropped before.

    pictures: those that the selection saw.
    """
    return tuple(
        own.new_full((picture.schedule.visual_tokens,), absent).index_copy(0, picture.number.to(own.device), own)
        for own, picture in zip(values, pictures, strict=True)
    )


def _destinations(merged: Callable[[], tuple[Tensor, ...]], pictures: Sequence[Picture]) -> tuple[Tensor, ...]:
    """The result of `Selection.merged`, on the picture's own numbering: for each sample [V0], −1 for a token in none.

    pictures: those that the selection saw.
    """
    numbers = [
        picture.number.to(indices.device)[indices.clamp_min(0)].where(indices >= 0, -1)
        for indices, picture in zip(merged(), pictures, strict=True)
    ]
    return _all_on_picture(numbers, pictures, -1)


def _run(layer: nn.Module, kwargs: Kwargs, hidden: HiddenBSD) -> HiddenBSD:
    """The output of a decoder layer, differentiable with respect to `hidden`.

    Raises UnsupportedModel where a module inside it gives no gradient.
    """
    mask = kwargs.get("attention_mask")
    forward_only = isinstance(mask, BlockMask) and (hidden.device.type == "cpu" or mask.kv_indices.is_inference())
    if forward_only and hidden.requires_grad:
        raise UnsupportedModel(
            "attention 'flex_attention' has no backward pass on a CPU or under inference_mode: load the model with "
            "sdpa, or use saliency 'tail' without hooks inside its layers"
        )
    # In an empty context: transformers collects attentions by a context variable, and would collect these too.
    arguments = {name: differentiable(value) for name, value in kwargs.items()}
    with gradients_checked(layer) if hidden.requires_grad else nullcontext():
        output = Context().run(layer.forward, hidden, **arguments)
    return output[0] if isinstance(output, tuple) else output


def device_of(layer: nn.Module, hidden: Tensor) -> torch.device:
    """The device that a layer runs on.

    A model that accelerate spread over devices moves the input inside the layer's forward, after our hook has run.
    Weights that are offloaded are on no device; there accelerate's hook names the device.
    """
    device = getattr(getattr(layer, "_hf_hook", None), "execution_device", None)
    if device is not None:
        return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    weights = next(layer.parameters(), None)
    return hidden.device if weights is None or weights.is_meta else weights.device
