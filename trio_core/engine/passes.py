"""The base of a prefill and a decode step: at each layer they cut masks and positions to the tokens left."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, ClassVar

from torch import Tensor, nn

from trio_core.engine.cache import check_as_left, window
from trio_core.engine.calls import Kwargs, cache_of, check_layer_call
from trio_core.engine.frames import Frame, cut_mask, take_rows
from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.methods.method import Method, Positions
from trio_core.models.adapter import Adapter
from trio_core.models.encoder import Tower
from trio_core.rules.schedule import Schedule
from trio_core.tensors import HiddenBSD, LeftBSD


@dataclass(frozen=True)
class Setup:
    """The facts that hold for the whole context.

    adapter: the model's family.
    method: the method that prunes.
    positions: whether kept tokens keep their position ids in this family, or are renumbered.
    tower: the vision tower with the hooks that the method needs.
    num_layers: L.
    window: the smallest sliding window of any layer. A flash kernel counts its tokens itself; elsewhere a mask decides.
    """

    adapter: Adapter
    method: Method
    positions: Positions
    tower: Tower
    num_layers: int
    window: int | None

    @cached_property
    def schedule(self) -> Callable[[int], Schedule]:
        """The schedule of a sample by its number of visual tokens. Each is solved once."""
        method, num_layers = self.method, self.num_layers  # not `self`, which would be a cycle
        if type(method).schedule_in is Method.schedule_in:  # it needs no widths
            return cache(lambda visual_tokens: method.schedule(visual_tokens, num_layers))
        shape = self.adapter.layer_shape
        return cache(lambda visual_tokens: method.schedule_in(shape, visual_tokens, num_layers))


class Pass(ABC):
    """One forward of the whole model.

    frames[i]: the frame that decoder layer i runs in; absent where it runs on all tokens.
    prunes: whether a layer of this pass sees fewer tokens than the sequence has.
    layers_run: how many decoder layers have begun.
    additions[i]: [B, S, D], what the model adds to the input of layer i (DeepStack).
    cache: what the layers read and fill, or None.
    """

    is_prefill: ClassVar[bool] = False
    """Whether such a pass fills an empty cache."""

    def __init__(self, setup: Setup, frames: dict[int, Frame], *, prunes: bool):
        self.setup = setup
        self.frames = frames
        self.prunes = prunes
        self.layers_run = 0
        self.additions: dict[int, Tensor] = {}
        self.cache: Any = None
        # By frame, source and window: many layers share their masks and positions.
        self._cuts: dict[tuple[int, int, int | None], tuple[Any, Any]] = {}

    @abstractmethod
    def enter(self, index: int, layer: nn.Module, hidden: HiddenBSD, kwargs: Kwargs) -> tuple[LeftBSD, Kwargs]:
        """The input of decoder layer `index` (0-based) and its keyword arguments, as the layer is to receive them."""

    @abstractmethod
    def place(self, positions: Tensor, frame: Frame) -> Tensor:
        """[B, T]: the position ids of the tokens that a layer runs on."""

    @abstractmethod
    def length(self, queries: int | Tensor) -> int:
        """Tokens of the full sequence, cached and dropped ones included.

        queries: those that a layer runs on. While torch traces, a size is a tensor.
        """

    def begin(self, index: int, layer: nn.Module, rest: tuple[Any, ...], kwargs: Kwargs) -> None:
        """Check the call of decoder layer `index` (0-based).

        rest: its arguments by position behind the hidden states.

        Raises UnsupportedInput unless each layer runs once, in order, and as `check_layer_call` does.
        """
        if self.prunes:
            check_layer_call(layer, rest, kwargs)
        if index != self.layers_run:
            raise UnsupportedInput(
                f"decoder layer {index + 1} of {self.setup.num_layers} ran after {self.layers_run} layers of this "
                "forward; prune() needs each layer once, in order"
            )
        self.layers_run += 1

    def check_complete(self) -> None:
        """Raise UnsupportedModel where the pre-hook of a layer did not run, so that the layer saw tokens unpruned."""
        if self.layers_run != self.setup.num_layers:
            missing = self.setup.num_layers - self.layers_run
            raise UnsupportedModel(
                f"{missing} of {self.setup.num_layers} decoder layers ran without their hooks, so that nothing is "
                "pruned there: code that was compiled as a whole skips hooks; compile by layer (layer.compile()), "
                "or not at all"
            )

    def add(self, index: int, hidden: HiddenBSD, frame: Frame | None) -> HiddenBSD:
        """The input of layer `index`, with what the model adds to it at the tokens that are left."""
        if (addition := self.additions.get(index)) is None:
            return hidden
        return hidden + (addition if frame is None else take_rows(addition, frame.index)).to(hidden.device)

    def cut(self, kwargs: Kwargs, frame: Frame | None, hidden: HiddenBSD, index: int) -> Kwargs:
        """The keyword arguments of layer `index`, cut from the full sequence to its frame."""
        if frame is None:
            return kwargs
        length, adapter = self.length(hidden.shape[1]), self.setup.adapter
        later = length - frame.full_length  # tokens since the prefill, this step's included
        if self.setup.window is not None and length > self.setup.window and "flash" in adapter.attention:
            raise UnsupportedInput(
                f"a sliding window of {self.setup.window} tokens in a sequence of {length}: {adapter.attention} would "
                "count only the tokens that are left; load the model with sdpa or eager"
            )
        limit = None if self.is_prefill else window(cache_of(kwargs).layers[index])
        mask, compact = kwargs.get("attention_mask"), self.setup.positions == "compact"
        if mask is None and not (self.is_prefill or compact or frame.hides or limit):
            return kwargs  # nothing to cut: a decode step has its own positions, and no mask
        cut = dict(kwargs)
        if "attention_mask" in kwargs:
            facts = {"causal": adapter.causal, "window": limit}
            make = partial(cut_mask, frame, mask, hidden, later, adapter.attention, **facts)
            cut["attention_mask"] = self._once(frame, mask, make, limit)
        rotary, positions = kwargs["position_embeddings"], kwargs.get("position_ids")
        if positions is not None and (self.is_prefill or compact):
            cut["position_ids"] = positions = self._once(frame, positions, partial(self.place, positions, frame))
        if compact:
            if positions is None:
                raise UnsupportedModel(
                    f"{adapter.family} passes no position ids to its layers: use positions 'original'"
                )
            cut["position_embeddings"] = self._once(frame, rotary, partial(adapter.rotary, hidden, positions, index))
        elif self.is_prefill:
            cut["position_embeddings"] = self._once(
                frame, rotary, lambda: tuple(take_rows(part, frame.index) for part in rotary)
            )
        if self.is_prefill and "flash" in adapter.attention:
            cut["position_ids"] = None  # the kernel would take ids with gaps for packed sequences
        return cut

    def _once(self, frame: Frame, source: Any, make: Callable[[], Any], limit: int | None = None) -> Any:
        """Return what `make` returns. Layers in one frame, with one window, share one cut of one source."""
        key = id(frame), id(source), limit
        if key not in self._cuts:
            self._cuts[key] = source, make()
        return self._cuts[key][1]


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
