"""`prune(model, method)`: token pruning on an unmodified Hugging Face model, for as long as a context is open.

One pre-hook on the model reads where the picture lies; one pre-hook on each decoder layer does the rest. Before layer
l + 1 a stage at layer l chooses and drops; from there on each layer's masks and positions are cut to the tokens that
are left (`frames.py`). The library goes on thinking in the full sequence: it sizes masks and counts positions by the
first layer's cache, which stays whole, and the hooks translate. Attention kernels are never touched.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import PreTrainedModel

from trio_core import methods
from trio_core.engine.checking import vouch
from trio_core.engine.frames import Frame, cut_mask, renumbered, shrink, take_rows
from trio_core.errors import OptionError, TrioError, UnsupportedInput, UnsupportedModel
from trio_core.methods.method import Method
from trio_core.methods.view import Embeddings, Picture, Selection, Signal, View, last_rows
from trio_core.models import adapter_for
from trio_core.models.adapter import Adapter
from trio_core.rules.attention import LayerCall
from trio_core.rules.schedule import Schedule, check_layers
from trio_core.spans import span
from trio_core.tensors import HiddenBSD, LeftBSD, differentiable, to_device
from trio_core.trace import StageTrace, Trace

_pruned_now: WeakSet[PreTrainedModel] = WeakSet()
_checked: WeakKeyDictionary[PreTrainedModel, dict[Method, set[int]]] = WeakKeyDictionary()


@contextmanager
def prune(model: PreTrainedModel, method: Method | str, **options: Any) -> Iterator[Trace]:
    """Prune visual tokens by `method` in every prefill of `model` while the context is open.

    method: a `Method`, or a name (`"trio"`, `"package.module:ClassName"`) with its options as keywords.
    Yields the Trace, refilled by each prefill. On the way out, an exception included, the model is as it came in. A
    cache that was filled inside is decoded inside: only there is it known which tokens each of its layers holds.

    Raises OptionError for bad options, UnsupportedModel for a class or attention kernel we do not know, and, from
    within the model's forward, RetentionError for a retention that the picture's tokens cannot reach, TrioError for a
    method that keeps what it must not, and UnsupportedInput where pruning would be silently wrong.
    """
    chosen = _as_method(method, options)
    adapter = adapter_for(model)
    _check_model(adapter, chosen)
    vouch(adapter, chosen, prune)
    if model in _pruned_now:
        raise OptionError(f"{type(model).__name__} is being pruned already: leave that context first")
    trace = Trace()
    run = _Run(adapter, chosen, trace)
    handles: list[Any] = []
    _pruned_now.add(model)
    try:
        handles.append(model.register_forward_pre_hook(run.before_model, with_kwargs=True))
        handles.append(model.register_forward_hook(run.after_model, always_call=True))
        handles.append(adapter.decoder.register_forward_pre_hook(run.before_decoder, with_kwargs=True))
        if run.tower is not None:
            handles.extend(run.tower.listen())
        for index, layer in enumerate(adapter.layers):
            handles.append(layer.register_forward_pre_hook(partial(run.before_layer, index), with_kwargs=True))
        yield trace
    finally:
        for handle in handles:
            handle.remove()
        _pruned_now.discard(model)


def _as_method(method: Method | str, options: dict[str, Any]) -> Method:
    if isinstance(method, Method):
        if options:
            raise OptionError(f"options {sorted(options)} come with a name; {method.name!r} is made already")
        return method
    cls = methods.find(method)
    if unknown := sorted(set(options) - set(cls.option_names())):
        raise OptionError(f"method {method!r} has no option {unknown[0]!r}; it has: {', '.join(cls.option_names())}")
    return cls(**options)


def _check_model(adapter: Adapter, method: Method) -> None:
    if method.layers is not None:
        check_layers(method.layers, len(adapter.layers))
    if adapter.attention not in ("eager", "sdpa", "flex_attention") and "flash" not in adapter.attention:
        raise UnsupportedModel(
            f"attention {adapter.attention!r}: its masks cannot be cut; load the model with eager, sdpa, "
            "flex_attention or flash"
        )
    if method.positions_in(adapter.multi_axis_positions) is None:
        raise UnsupportedModel(
            f"positions 'compact' are not defined for {adapter.family}, whose positions have three axes; use 'original'"
        )


@dataclass
class _Pass:
    """One forward of the whole model.

    frames[i]: the frame that decoder layer i runs in; absent means all tokens. cached: tokens of the sequence before
    this pass. Of a prefill alone, as it goes: cache of the call; pictures by sample; lengths[b]: tokens left
    in sample b, text included; full: the frame of all tokens; previous: the layer that has just run, where a method
    looks back at it.
    additions[i]: [B, S, D] that the model adds to what enters layer i. embeddings: by sample, where a method asks.
    cut: masks and positions by frame and source, since many layers share them.
    """

    prefill: bool
    frames: dict[int, Frame]
    cached: int = 0
    cache: Any = None
    pictures: tuple[Picture, ...] = ()
    lengths: list[int] = field(default_factory=list)
    full: Frame | None = None
    previous: LayerCall | None = None
    additions: dict[int, Tensor] = field(default_factory=dict)
    embeddings: tuple[Embeddings, ...] = ()
    cut: dict[tuple[int, int, int | None], tuple[Any, Any]] = field(default_factory=dict)


class _Run:
    """The state behind one `prune` context."""

    def __init__(self, adapter: Adapter, method: Method, trace: Trace):
        self.adapter = adapter
        self.method = method
        self.trace = trace
        self.running: _Pass | None = None
        self.checked = _checked_before(adapter.model, method)
        self.schedules: dict[int, Schedule] = {}
        self.frames_of: WeakKeyDictionary[Any, dict[int, Frame]] = WeakKeyDictionary()
        self.parameters = list(signature(adapter.model.forward).parameters)
        self.num_layers = len(adapter.layers)
        self.compact = method.positions_in(adapter.multi_axis_positions) == "compact"
        # Only flash kernels count a window themselves; elsewhere a mask says who is within it.
        self.window = adapter.window if "flash" in adapter.attention else None
        self.tower = adapter.tower() if Signal.ENCODER in method.needs else None

    @property
    def now(self) -> _Pass:
        """The forward that is running."""
        if self.running is None:
            raise UnsupportedInput("prune() sees only calls of the whole model, not of its decoder")
        return self.running

    # --- hooks -------------------------------------------------------------------------------------------------------

    def before_model(self, _model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Decide whether this forward is a prefill; if so, find the picture and the budgets."""
        inputs = dict(zip(self.parameters, args, strict=False)) | kwargs
        cache = inputs.get("past_key_values")
        if cache is not None:
            _check_cache(cache)
        if cache is not None and cache.get_seq_length() > 0:
            self.running = self._resume(cache, inputs)
        else:
            self.running = self._prefill(inputs)

    def after_model(self, _model: nn.Module, _args: Any, _output: Any) -> None:
        """Forget the pass, also after an exception; the cache of a prefill is told of the tokens it does not hold."""
        running, self.running = self.running, None
        if self.tower is not None:
            self.tower.forget()
        if running is not None and running.cache is not None and len(running.frames):
            _count_the_dropped(running.cache, running.frames)

    def before_decoder(
        self, _decoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Take over what the decoder adds between its layers: it would add to all tokens, dropped ones too."""
        self.now.additions = self.adapter.take_additions(kwargs)
        return args, kwargs

    def before_layer(
        self, index: int, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Run the stage that stands before this layer, if there is one, and cut the layer's masks and positions."""
        now = self.now
        hidden, rest = (args[0], args[1:]) if args else (kwargs.pop("hidden_states"), ())
        frame = now.frames.get(index - 1)
        if (addition := now.additions.get(index)) is not None:
            hidden = hidden + (addition if frame is None else take_rows(addition, frame.index))
        if now.prefill:
            if index == 0:
                self._adopt_cache(kwargs.get("past_key_values"))
                if Signal.EMBEDDINGS in self.method.needs:
                    now.embeddings = self._embeddings(hidden)
            if any(index in picture.schedule.layers for picture in now.pictures):
                hidden, frame = self._stage(index, layer, hidden, frame, kwargs)
            if frame is not None:
                now.frames[index] = frame
            if Signal.LAYERS in self.method.needs and index + 1 in now.pictures[0].schedule.layers:
                now.previous = _layer_call(self.adapter, layer, hidden, self._cut(kwargs, frame, hidden, index))
        else:
            frame = now.frames.get(index)
        return (hidden, *rest), self._cut(kwargs, frame, hidden, index)

    # --- prefill -----------------------------------------------------------------------------------------------------

    def _prefill(self, inputs: dict[str, Any]) -> _Pass:
        input_ids, attention_mask = inputs.get("input_ids"), inputs.get("attention_mask")
        if input_ids is None:
            raise UnsupportedInput(
                "the picture is found by its placeholder ids: pass input_ids, not inputs_embeds alone"
            )
        visual = self.adapter.visual_tokens(input_ids)
        if attention_mask is not None and attention_mask.ndim != 2:
            raise UnsupportedInput(
                f"attention_mask with {attention_mask.ndim} dimensions: pass the [batch, tokens] mask"
            )
        valid = torch.ones_like(visual) if attention_mask is None else attention_mask.to(torch.bool)
        candidates = self.method.candidates(visual & valid, valid)
        # Here the host waits for the device: the pictures' places and the lengths fix every later shape.
        seen, there, alive = torch.stack([visual & valid, candidates, valid]).cpu()
        lengths, pictures = alive.sum(dim=1).tolist(), []
        for sample, (row, before) in enumerate(zip(there, alive.cumsum(dim=1), strict=True)):
            rows = row.nonzero().squeeze(1)
            if not seen[sample].any():
                raise UnsupportedInput(f"sample {sample} of the batch has no visual tokens: there is nothing to prune")
            text_after = lengths[sample] - int(before[rows[-1]])
            if text_after == 0:
                raise UnsupportedInput(
                    f"sample {sample} of the batch ends with its picture: give the text behind it too"
                )
            pictures.append(
                Picture(
                    to_device(rows, input_ids.device),
                    torch.arange(len(rows), device=input_ids.device),
                    len(rows),
                    text_after,
                    self._schedule(len(rows)),
                )
            )
        self.trace.stages.clear()
        self.trace.schedules = tuple(picture.schedule for picture in pictures)
        return _Pass(True, {}, pictures=tuple(pictures), lengths=lengths, full=Frame.of_all(valid))

    def _schedule(self, visual_tokens: int) -> Schedule:
        """What a picture of so many tokens is due: solved once."""
        if visual_tokens not in self.schedules:
            self.schedules[visual_tokens] = self.method.schedule(visual_tokens, self.num_layers)
        return self.schedules[visual_tokens]

    def _adopt_cache(self, cache: Any) -> None:
        """Remember the frames beside the cache that they belong to: later steps bring the cache, nothing else."""
        if cache is None:
            return
        _check_cache(cache)
        self.now.cache = cache
        self.frames_of[cache] = self.now.frames

    def _resume(self, cache: Any, inputs: dict[str, Any]) -> _Pass:
        """Go on from a cache, in the frames of its prefill. Reads no tensor, since each decode step comes by."""
        # Asked of the features, not of the ids: a model may well write a placeholder's id itself.
        for name, value in inputs.items():
            if value is not None and (name.startswith("pixel_values") or (name == "mm_encoder_outputs" and value)):
                raise UnsupportedInput(
                    f"{name} after a cached beginning: a later picture is not pruned; pass the conversation at once"
                )
        cached, frames = cache.get_seq_length(), self.frames_of.get(cache, {})
        for index, layer in enumerate(cache.layers[: self.num_layers]):
            held, due = _held(layer), cached
            if (frame := frames.get(index)) is not None:
                due = frame.index.shape[1] + cached - frame.full_length
            if (window := _window(layer)) is not None:
                due = min(due, window - 1)
            if held != due or (frame is not None and cached < frame.full_length):
                raise UnsupportedInput(
                    f"cache of {cached} tokens, {held} at layer {index + 1}, is not as this context's prefill left it: "
                    "decode inside the context that filled it, and neither copy it nor cut it back into the prompt"
                )
        return _Pass(prefill=False, frames=frames, cached=cached)

    def _stage(
        self, boundary: int, layer: nn.Module, hidden: HiddenBSD, frame: Frame | None, kwargs: dict[str, Any]
    ) -> tuple[LeftBSD, Frame | None]:
        """Choose and drop. Returns the residual stream and the frame that the layers from `boundary` + 1 on see."""
        now = self.now
        current = frame or now.full
        assert current is not None
        pictures = tuple(replace(p, budget=p.schedule.budget_after(boundary)) for p in now.pictures)
        before = max(len(p.rows) for p in pictures)
        if all(p.budget == len(p.rows) for p in pictures):
            self._record(boundary, before, before, tuple(p.number for p in pictures), None, pictures)
            return hidden, frame
        with span("selection"), torch.no_grad():
            selection = self.method.select(self._view(boundary, layer, hidden, frame, pictures, kwargs))
        self._check_selection(boundary, selection, pictures, int(hidden.shape[-1]))
        with span("compaction"):
            now.lengths = [n - len(p.rows) + p.budget for n, p in zip(now.lengths, pictures, strict=True)]
            rows, smaller, now.pictures = shrink(current, pictures, selection.kept, now.lengths)
            hidden = take_rows(hidden, rows)
            if selection.features is not None:
                for sample, (picture, merged) in enumerate(zip(now.pictures, selection.features, strict=True)):
                    hidden[sample, picture.rows] = merged.to(hidden.dtype)
        numbers = tuple(p.number[kept] for p, kept in zip(pictures, selection.kept, strict=True))
        self._record(boundary, before, max(p.budget for p in pictures), numbers, selection, pictures)
        return hidden, smaller

    def _embeddings(self, hidden: HiddenBSD) -> tuple[Embeddings, ...]:
        now = self.now
        assert now.full is not None
        padded = bool(min(now.lengths) < hidden.shape[1])
        return tuple(
            Embeddings(
                hidden[sample, picture.rows],
                hidden[sample, last_rows(now.full.valid[sample : sample + 1], picture.text_after, padded=padded)[0]],
            )
            for sample, picture in enumerate(now.pictures)
        )

    def _view(
        self,
        boundary: int,
        layer: nn.Module,
        hidden: HiddenBSD,
        frame: Frame | None,
        pictures: tuple[Picture, ...],
        kwargs: dict[str, Any],
    ) -> View:
        now, needs = self.now, self.method.needs
        assert now.full is not None
        valid = (frame or now.full).valid
        signals: dict[Signal, Any] = {}
        if Signal.LAYERS in needs:
            calls = {"next": _layer_call(self.adapter, layer, hidden, self._cut(kwargs, frame, hidden, boundary))}
            signals[Signal.LAYERS] = calls if now.previous is None else {**calls, "current": now.previous}
        if Signal.READOUT in needs:
            signals[Signal.READOUT] = self.adapter.readout
        if Signal.NORM in needs:
            signals[Signal.NORM] = self.adapter.final_norm
        if Signal.EMBEDDINGS in needs:
            signals[Signal.EMBEDDINGS] = now.embeddings
        if self.tower is not None and boundary == 0:
            signals[Signal.ENCODER] = self.tower.seen([len(picture.rows) for picture in pictures])
        padded = bool(min(now.lengths) < hidden.shape[1])  # a tracer's sizes are tensors
        return View(boundary, hidden, valid, padded, pictures, signals)

    def _check_selection(self, boundary: int, selection: Selection, pictures: Sequence[Picture], width: int) -> None:
        """Hold the method to its budget; the first time on a model also to its order, which the host waits for."""
        method = f"method {self.method.name!r}"
        if len(selection.kept) != len(pictures):
            raise TrioError(f"{method} chose for {len(selection.kept)} samples of a batch of {len(pictures)}")
        for sample, (kept, picture) in enumerate(zip(selection.kept, pictures, strict=True)):
            count, place = len(picture.rows), f"in sample {sample}, after layer {boundary}"
            if len(kept) != picture.budget:
                raise TrioError(f"{method} kept {len(kept)} of {count} tokens {place}; its budget is {picture.budget}")
            if boundary not in self.checked and any(b <= a for a, b in pairwise([-1, *kept.tolist(), count])):
                raise TrioError(
                    f"{method} kept indices that do not ascend from 0 to {count - 1} {place}; sort, each once"
                )
        if selection.features is not None:
            shapes = [tuple(merged.shape) for merged in selection.features]
            if shapes != (due := [(picture.budget, width) for picture in pictures]):
                raise TrioError(f"{method} gave features of shapes {shapes} after layer {boundary}; due are {due}")
        self.checked.add(boundary)

    def _record(
        self,
        layer: int,
        before: int,
        after: int,
        kept: tuple[Tensor, ...],
        selection: Selection | None,
        pictures: Sequence[Picture],
    ) -> None:
        scores = None
        if selection is not None and selection.scores is not None:
            scores = tuple(
                values.new_full((schedule.visual_tokens,), torch.nan).index_copy(0, picture.number, values)
                for values, picture, schedule in zip(selection.scores, pictures, self.trace.schedules, strict=True)
            )
        self.trace.stages.append(StageTrace(layer, before, after, kept, scores))

    # --- every layer -------------------------------------------------------------------------------------------------

    def _cut(self, kwargs: dict[str, Any], frame: Frame | None, hidden: HiddenBSD, index: int) -> dict[str, Any]:
        """The keyword arguments of layer `index`, cut from the full sequence to its frame."""
        if frame is None:
            return kwargs
        now, cut = self.now, dict(kwargs)
        # Tokens that came after the prefill, this step's included. Each layer's cache holds them all.
        later = 0 if now.prefill else now.cached + hidden.shape[1] - frame.full_length
        if self.window is not None and (length := frame.full_length + later) > self.window:
            raise UnsupportedInput(
                f"a window of {self.window} tokens over {length}: {self.adapter.attention} would count only "
                "the tokens that are left; load the model with sdpa or eager"
            )
        window = None if now.prefill else _window(kwargs["past_key_values"].layers[index])
        mask, compact = kwargs.get("attention_mask"), self.compact
        if mask is None and not (now.prefill or compact or frame.hides or window):
            return kwargs  # a step that hides nothing: its positions are its own, and the cache knows how much it holds
        if "attention_mask" in kwargs:
            attention = self.adapter.attention
            cut["attention_mask"] = self._once(
                frame,
                mask,
                lambda: cut_mask(frame, mask, hidden, later, attention, causal=self.adapter.causal, window=window),
                window,
            )
        rotary, positions = kwargs["position_embeddings"], kwargs.get("position_ids")
        if positions is not None and (now.prefill or compact):
            cut["position_ids"] = positions = self._once(frame, positions, partial(self._placed, positions, frame))
        if compact:
            cut["position_embeddings"] = self._once(
                frame, rotary, lambda: self._renumbered_rotary(positions, hidden, index)
            )
        elif now.prefill:
            cut["position_embeddings"] = self._once(
                frame, rotary, lambda: tuple(take_rows(part, frame.index) for part in rotary)
            )
        if now.prefill and "flash" in self.adapter.attention:
            cut["position_ids"] = None  # the kernel would take ids with gaps for packed sequences
        return cut

    def _once(self, frame: Frame, source: Any, make: Callable[[], Any], window: int | None = None) -> Any:
        """Layers in one frame, with one window, share one cut of one source."""
        now = self.now
        key = id(frame), id(source), window
        if key not in now.cut:
            now.cut[key] = source, make()
        return now.cut[key][1]

    def _placed(self, positions: Tensor, frame: Frame) -> Tensor:
        """[B, T] the position ids of the frame's tokens; compact ones are less the tokens dropped before each."""
        now = self.now
        if not self.compact:
            return positions.expand(len(frame.index), -1).gather(1, frame.index)
        if not now.prefill:
            return positions - frame.dropped[:, None]
        assert now.full is not None
        return renumbered(frame, positions, now.full.valid)

    def _renumbered_rotary(self, positions: Tensor | None, hidden: HiddenBSD, index: int) -> tuple[Tensor, Tensor]:
        """Rotary embeddings of renumbered tokens for layer `index`."""
        if positions is None:
            raise UnsupportedModel(
                f"{self.adapter.family} passes no position ids to its layers: use positions 'original'"
            )
        return self.adapter.rotary(hidden, positions, index)


def _checked_before(model: PreTrainedModel, method: Method) -> set[int]:
    """The boundaries after which this method's order was found to hold on this model, in whatever context."""
    try:
        return _checked.setdefault(model, {}).setdefault(method, set())
    except TypeError:  # of a method that holds what cannot be hashed nothing is remembered
        return set()


def _check_cache(cache: Any) -> None:
    if cache.is_compileable:
        raise UnsupportedInput(
            f"cache {type(cache).__name__} fixes one length for all layers; pruning needs transformers' DynamicCache"
        )


def _window(cache_layer: Any) -> int | None:
    """How many tokens a layer's cache looks back over at the most, this step's included; None without a limit."""
    return cache_layer.sliding_window if cache_layer.is_sliding else None


def _held(cache_layer: Any) -> int:
    """Tokens whose keys a layer's cache really has."""
    return cache_layer.keys.shape[-2] if cache_layer.is_initialized else 0


def _count_the_dropped(cache: Any, frames: dict[int, Frame]) -> None:
    """Let the cache answer with the sequence's length where the library asks for it, whatever the layer still holds.

    It asks the first layer, the first with full attention and the first with a sliding window, to size masks and to
    count positions for all of them; what the layers hold is for the hooks to know.
    """
    sliding = [bool(window) for window in cache.is_sliding]
    for index in {0, *(sliding.index(kind) for kind in (True, False) if kind in sliding)}:
        layer, frame = cache.layers[index], frames.get(index)
        if frame is None:
            continue
        dropped = frame.full_length - frame.index.shape[1]
        if layer.is_sliding:
            layer.cumulative_length += dropped
        else:
            # By a weak reference: a cache that held itself would stay until the collector comes by.
            layer.get_seq_length = partial(_length, ref(layer), dropped)


def _length(layer: ref[Any], dropped: int) -> int:
    """The sequence's length, by a layer that holds all of it but `dropped` tokens."""
    if (alive := layer()) is None:
        raise UnsupportedInput("this cache is a copy of one that is gone: decode with the cache that was filled")
    return _held(alive) + dropped


def _layer_call(adapter: Adapter, layer: nn.Module, hidden: HiddenBSD, kwargs: dict[str, Any]) -> LayerCall:
    """The layer past its hooks and its cache, whole or taken apart, so that it can be run again and differentiated."""
    plain, mask = {**kwargs, "past_key_values": None, "use_cache": False}, kwargs.get("attention_mask")

    def run(probed: HiddenBSD) -> HiddenBSD:
        forward_only = isinstance(mask, BlockMask) and (probed.device.type == "cpu" or mask.kv_indices.is_inference())
        if forward_only and probed.requires_grad:
            raise UnsupportedModel(
                "attention 'flex_attention' has no way back on a CPU or from inference_mode: use saliency 'tail', or "
                "load the model with sdpa"
            )
        # In an empty context: transformers finds by a context variable who collects attentions, and would add these.
        output = Context().run(layer.forward, probed, **{name: differentiable(value) for name, value in plain.items()})
        return output[0] if isinstance(output, tuple) else output

    return LayerCall(
        hidden,
        run,
        partial(adapter.attention_layer, layer),
        kwargs["position_embeddings"],
        mask,
        adapter.causal,
    )
