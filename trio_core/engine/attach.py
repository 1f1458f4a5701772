"""The hooks of one `prune` context. They also check that one thread runs them and that no layer skips them.

A pre-hook on the model reads where the pictures are. A pre-hook on each decoder layer runs the stage before it, and
cuts the layer's masks and positions to the tokens left. transformers still works with the full sequence: it sizes masks
and counts positions by the first layer's cache. Attention kernels are never touched.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import signature
from typing import Any, NoReturn, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import distributed, nn

from trio_core.engine import cache
from trio_core.engine.calls import (
    arguments_of,
    cache_of,
    check_decoder_call,
    check_decoder_output,
    check_filled,
    check_names,
    check_same_cache,
    hidden_of,
)
from trio_core.engine.frames import Frame
from trio_core.engine.generate import GuardedGenerate
from trio_core.engine.passes import Decode, Pass, Setup
from trio_core.engine.places import HeadAtPlaces, restore
from trio_core.engine.prefill import OrderCheck, Prefill
from trio_core.engine.prompt import Prompt, check_run, read_prompt
from trio_core.errors import TrioError, UnsupportedInput, UnsupportedModel
from trio_core.models.layer import Replacement, check_whole
from trio_core.models.qwen_tower import ThinTower
from trio_core.releases import USE_TESTED
from trio_core.trace import Trace

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Hook = TypeVar("Hook", bound=Callable[..., Any])


def _eager(hook: Hook) -> Hook:
    """The hook, which torch.compile calls as it is. Tracing into it would fix one prompt's sizes."""
    return cast(Hook, torch.compiler.disable(hook))


def _interruptible(model: nn.Module, end_pass: Callable[[], None]) -> Replacement:
    """Make a model's `forward` end the pass also after a KeyboardInterrupt or a SystemExit.

    torch calls hooks after an `Exception` only, and in compiled code not even then.
    """
    forward = model.forward

    @wraps(forward)
    def interruptible(*args: Any, **kwargs: Any) -> Any:
        try:
            return forward(*args, **kwargs)
        except BaseException:
            end_pass()
            raise

    return Replacement(model, "forward", interruptible)


def _expect(setup: Setup, inputs: dict[str, Any]) -> None:
    """Tell the tower of a generate(), which may run it before the forward. inputs: its arguments by name."""
    if isinstance(setup.tower, ThinTower) and inputs["input_ids"] is not None:
        _tell_tower(setup, read_prompt(setup, inputs, inputs))


def _tell_tower(setup: Setup, prompt: Prompt) -> None:
    setup.tower.expect(tuple((len(p.rows), p.schedule.tokens_by_layer[0]) for p in prompt.pictures))


class Attachment:
    """The state behind one `prune` context.

    Nothing that it holds holds it. A cycle would keep the tensors of a run until the garbage collector comes, which is
    off while times are measured.
    """

    def __init__(self, setup: Setup, trace: Trace, notes: tuple[str, ...] = ()):
        self.setup = setup
        self.trace = trace
        self.notes = notes
        self.model = setup.adapter.model
        self.running: Pass | None = None
        self.passes = 0
        self.order = OrderCheck()
        self.head = HeadAtPlaces(self.model)
        self.guarded = GuardedGenerate(self.model, setup.tower, partial(_expect, setup))
        self._handles: list[Any] = []
        self._inputs: dict[str, Any] = {}  # of the model's forward that runs
        self._owner: threading.Thread | None = None
        self._ownership = threading.Lock()
        self._frames_of: WeakKeyDictionary[Any, dict[int, Frame]] = WeakKeyDictionary()
        self._layers = [id(layer) for layer in setup.adapter.layers]
        self._parameters = list(signature(self.model.forward).parameters)
        self._known = arguments_of(self.model)

    def open(self, entries: Sequence[nn.Module], compiled: Sequence[nn.Module]) -> None:
        """Register all hooks. The arguments are modules around the model that a user may call instead of it.

        entries: those that call `model.forward` past the model's hooks (PEFT's tuners).
        compiled: those that run code which `torch.compile` made of the model.
        """
        adapter = self.setup.adapter
        for entry in (self.model, *entries):
            self._handles.append(entry.register_forward_pre_hook(self.before_model, with_kwargs=True))
            self._handles.append(entry.register_forward_hook(self.check_pass))
            self._handles.append(entry.register_forward_hook(self.end_pass, always_call=True))
        for wrapper in compiled:
            self._handles.append(wrapper.register_forward_pre_hook(self.before_compiled))
            self._handles.append(wrapper.register_forward_hook(self.after_compiled))
        self._handles.append(adapter.decoder.register_forward_pre_hook(self.before_decoder, with_kwargs=True))
        self._handles.append(adapter.decoder.register_forward_hook(self.after_decoder))
        self._handles.extend(adapter.listen())
        self._handles.extend(self.setup.tower.listen())
        for index, layer in enumerate(adapter.layers):
            self._handles.append(layer.register_forward_pre_hook(partial(self.before_layer, index), with_kwargs=True))
        self._handles.extend(self.guarded.install())
        self._handles.append(_interruptible(self.model, self.end_pass))

    def close(self) -> None:
        """Take all hooks back. Pruned caches raise from now on."""
        self._forget_pass()
        self.setup.tower.forget()
        cache.close(self._frames_of)
        while self._handles:
            self._handles.pop().remove()

    def finish(self) -> None:
        """Raise faults that arrive late, and warn if no forward ran. For a context that is left without an error."""
        self.order.settle(wait=True)
        if not self.passes:
            warnings.warn(
                f"prune(): no forward of {type(self.model).__name__} ran in this context, so nothing was pruned; code "
                "that was compiled as a whole (torch.compile) skips hooks: call the model itself",
                RuntimeWarning,
                stacklevel=4,
            )

    # --- hooks -------------------------------------------------------------------------------------------------------

    @_eager
    def before_model(self, called: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Decide whether this forward is a prefill; if it is, find the pictures and the budgets."""
        self._claim_thread()
        self._forget_pass()
        if not self.guarded.generating:
            self.setup.tower.forget()  # pictures that were encoded before this forward
        elif self.setup.tower.recorded:
            self.setup.tower.copies = self.guarded.copies  # generate() ran the tower, and then repeated the samples
        names = self._parameters if called is self.model else list(signature(called.forward).parameters)
        inputs = dict(zip(names, args, strict=False)) | kwargs
        check_run(self.setup, inputs)
        self._inputs = inputs
        self.passes += 1
        past = cache_of(inputs)
        if past is not None and past.get_seq_length() > 0:
            self.order.settle(wait=False)
            self.running = Decode.resume(self.setup, inputs, self._frames_of.get(past, {}))
        else:
            self.running = self._prefill(inputs)
        self.running.cache = past

    @_eager
    def before_decoder(self, decoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Take DeepStack's features from the decoder, which would add them to dropped tokens too."""
        now = self._now()
        if [id(layer) for layer in self.setup.adapter.layers] != self._layers:
            raise UnsupportedModel(
                f"the decoder layers of {type(self.model).__name__} were changed inside a prune() context, "
                "and new layers have no hooks: change them before"
            )
        if now.prunes:
            check_decoder_call(decoder, args, kwargs)
            check_names(self.model, {}, self._inputs, self._known)
        now.additions = self.setup.adapter.take_additions(kwargs)
        return args, kwargs

    @_eager
    def before_layer(self, index: int, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Give the layer its input and its keyword arguments, pruned."""
        now = self._now()
        hidden, rest, kwargs = hidden_of(layer, args, kwargs)
        now.begin(index, layer, rest, kwargs)
        if index == 0 and now.cache is None:  # the model made one itself, or there is none
            now.cache = cache_of(kwargs)
        check_same_cache(self.model, index + 1, now.cache, kwargs)
        if index == 0 and isinstance(now, Prefill) and now.cache is not None:
            cache.check_cache(now.cache)
            if held := now.cache.get_seq_length():
                raise UnsupportedInput(
                    f"{type(self.model).__name__}: its decoder layers got a cache of {held} tokens, and the call of "
                    f"the model brought none: the step would count as a new prompt; {USE_TESTED}"
                )
            # Later steps bring the cache and nothing else: the frames are remembered beside it.
            self._frames_of[now.cache] = now.frames
        hidden, kwargs = now.enter(index, layer, hidden, kwargs)
        if index + 1 == self.setup.num_layers and isinstance(now, Prefill) and now.misses_logits:
            self.head.listen(now.frames[index], now.logits_asked)  # not before: methods call the head at their stages
        return (hidden, *rest), kwargs

    @_eager
    def after_decoder(self, decoder: nn.Module, _args: Any, output: Any) -> None:
        """Put hidden states and attention maps, where the caller asked for them, back at their places."""
        if (now := self.running) is not None and now.prunes and self._is_owner():
            check_decoder_output(decoder, output)
            restore(output, now)

    @_eager
    def check_pass(self, _called: nn.Module, _args: Any, output: Any) -> None:
        """Raise if a layer's hook did not run in this forward, or if it filled a cache that we did not see."""
        if self.running is None or not self._is_owner():
            return
        self.running.check_complete()
        if isinstance(self.running, Prefill) and self.running.prunes:
            check_filled(self.model, self._inputs, output, self.running.cache)
        self.head.check_ran()

    @_eager
    def end_pass(self, *_call: Any) -> None:
        """Guard the cache that the pass filled, and forget the pass, also after an error."""
        if not self._is_owner():
            return
        if isinstance(self.running, Prefill) and self.running.cache is not None:
            cache.guard(self.running.cache, self.running.frames)
        self._forget_pass()
        self.setup.tower.forget()

    def before_compiled(self, _wrapper: nn.Module, _args: Any) -> None:
        """Note how many forwards had run before compiled code begins."""
        self._passes_before = self.passes

    def after_compiled(self, wrapper: nn.Module, _args: Any, _output: Any) -> None:
        """Raise UnsupportedModel where compiled code ran past our hooks."""
        if self.passes == self._passes_before:
            raise UnsupportedModel(
                f"{type(wrapper).__name__} ran code that was compiled without prune()'s hooks, so nothing was pruned: "
                "call the model itself, or compile layer by layer (layer.compile())"
            )

    # --- what the hooks share ----------------------------------------------------------------------------------------

    def _now(self) -> Pass:
        """The forward that is running, on the thread that owns the context."""
        if not self._is_owner():
            self._claim_thread()
        if self.running is None:
            raise UnsupportedInput(
                f"the decoder of {type(self.model).__name__} was called past the hooks of the model: call the object "
                "that was given to prune(), not its .model, its .forward or a wrapper around it"
            )
        return self.running

    def _prefill(self, inputs: dict[str, Any]) -> Prefill:
        self.order.settle(wait=True)
        if distributed.is_available() and distributed.is_initialized():
            check_whole(self.model)  # it may have been split inside the context
        encoded = bool(inputs.get("mm_encoder_outputs"))  # generate() ran the tower, and then repeated the samples
        video_inputs, copies = (self.guarded.inputs, self.guarded.copies) if encoded else (inputs, 1)
        prompt = read_prompt(self.setup, inputs, video_inputs, copies)
        _tell_tower(self.setup, prompt)
        if not prompt.pictures and self.guarded.pruned:
            # Guidance: beside each step that sees the picture, generate() runs one that does not. It brings a mask.
            if inputs["input_ids"].shape[1] == 1 and inputs.get("attention_mask") is None:
                raise UnsupportedInput(
                    "one token without a cache and without an attention_mask in a generate() that pruned its prompt: "
                    "it would count as a new prompt; gradient checkpointing takes the cache away: call model.eval()"
                )
            self.trace.add_notes("a prompt without visual tokens also ran in this generate(): it ran dense")
        else:
            notes = self.notes if prompt.pictures else ("no visual tokens in the prompt: it ran dense", *self.notes)
            tokens = tuple(len(picture.rows) for picture in prompt.pictures)
            self.trace.restart(tokens, self.setup.num_layers, notes, prompt.frame.places)
            self.guarded.pruned = self.guarded.generating and bool(prompt.pictures)
        wanted = inputs.get("logits_to_keep") if "logits_to_keep" in self._parameters else 0
        return Prefill(self.setup, prompt, self.trace, self.order, wanted if isinstance(wanted, int) else 0)

    def _forget_pass(self) -> None:
        self.running, self._inputs = None, {}
        self.head.forget()

    def _is_owner(self) -> bool:
        return threading.current_thread() is self._owner

    def _claim_thread(self) -> None:
        """The thread of the first forward owns the context. Raises UnsupportedInput in every other thread."""
        current = threading.current_thread()
        with self._ownership:
            if self._owner is None:
                self._owner = current
        if self._owner is not current:
            raise UnsupportedInput(
                f"thread {current.name!r} called a model that thread {self._owner.name!r} is pruning: a context "
                "of prune() belongs to the thread of its first forward; open one context after the other"
            )

    def __reduce__(self) -> NoReturn:
        raise TrioError(
            f"{type(self.model).__name__} is being pruned: leave the prune() context before you copy or pickle it"
        )
