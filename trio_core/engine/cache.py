"""A pruned cache: its layers have different lengths, and transformers reads the sequence's from a few of them."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NoReturn

from trio_core.engine.frames import Frame
from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.models.adapter import GROWING
from trio_core.releases import USE_TESTED

_MOVES = ("reorder_cache", "batch_select_indices", "batch_repeat_interleave")
"""The methods of a cache that move its samples. A pruned cache has its own."""


def check_cache(cache: Any) -> None:
    """Raise UnsupportedInput for a cache whose layers cannot have lengths of their own.

    Raises UnsupportedModel for one that lacks a method by which we follow its samples: the library has another name
    for it, and beams would go on with the tokens of other beams.
    """
    kinds = [_own_class(layer) for layer in getattr(cache, "layers", ())]
    kinds += [kind] if (kind := getattr(cache, "layer_class_to_replicate", None)) else []
    other = next((kind for kind in kinds if kind not in GROWING), None)
    if other is not None or not hasattr(cache, "layers"):
        raise UnsupportedInput(
            f"cache {type(cache).__name__}{f' of {other.__name__}' if other else ''}: its layers cannot hold different "
            "numbers of tokens; pruning needs transformers' DynamicCache, the default of generate()"
        )
    if missing := next((name for name in _MOVES if not hasattr(cache, name)), None):
        raise UnsupportedModel(
            f"{type(cache).__name__} has no {missing!r}, by which prune() follows the samples of a cache: {USE_TESTED}"
        )


def window(layer: Any) -> int | None:
    """How many tokens a layer's cache looks back over, the step's own included; None without a limit."""
    return layer.sliding_window if layer.is_sliding else None


def held(layer: Any) -> int:
    """Tokens whose keys a layer's cache has."""
    return layer.keys.shape[-2] if layer.is_initialized else 0


def check_as_left(cache: Any, frames: dict[int, Frame], num_layers: int) -> int:
    """The length of the sequence in the cache, all tokens counted, dropped ones too.

    frames: by decoder layer, of the prefill that filled it; empty for a cache that was filled dense. It reads no
    tensor, because each decode step passes here.

    Raises UnsupportedInput where a layer does not hold what the prefill and the steps since left in it.
    """
    length = cache.get_seq_length()
    if len(cache.layers) < num_layers:
        raise UnsupportedInput(
            f"cache with keys of {len(cache.layers)} of {num_layers} layers, as an interrupted forward leaves it: pass "
            "a new cache"
        )
    for index, layer in enumerate(cache.layers[:num_layers]):
        expected = length
        if (frame := frames.get(index)) is not None:
            expected = frame.index.shape[1] + length - frame.full_length
        if (limit := window(layer)) is not None:
            expected = min(expected, limit - 1)
        if held(layer) != expected or (frame is not None and length < frame.full_length):
            raise UnsupportedInput(
                f"cache of {length} tokens, {held(layer)} at layer {index + 1}, is not as this context's prefill left "
                "it: decode inside the context that filled it, and neither copy it nor cut it back into the prompt"
            )
    return length


class Filled:
    """The tokens that a prefill left in a cache. The cache and its layers share it.

    frames: by decoder layer. closed: whether the context has closed.
    """

    def __init__(self, frames: dict[int, Frame]):
        self.frames = frames
        self.closed = False

    def regroup(self, move: Callable[[Frame], Frame]) -> None:
        """Move the samples of each frame. Layers share frames; each is moved once."""
        moved = {id(frame): move(frame) for frame in self.frames.values()}
        self.frames.update({index: moved[id(frame)] for index, frame in self.frames.items()})


@cache
def _pruned_layer(own: Any) -> Any:
    """The class that stands in for a layer's own class `own` while the layer belongs to a pruned cache."""

    class Layer(own):
        filled: Filled
        dropped: int

        def get_seq_length(self) -> int:
            """The length of the sequence, dropped tokens included, whatever the layer still holds.

            The library asks the first layer, the first with full attention and the first with a sliding window, to
            size masks and to count positions for all layers. What each layer holds is known to the hooks alone.
            """
            return super().get_seq_length() + (self.dropped if self.is_initialized and not self.is_sliding else 0)

        def update(self, *args: Any, **kwargs: Any) -> Any:
            """Add keys and values. Raises UnsupportedInput outside the context that filled the cache."""
            if self.filled.closed:
                raise UnsupportedInput(
                    "this cache was filled inside a prune() context that is closed, and its layers hold different "
                    "tokens: decode inside the context, or fill a new cache outside"
                )
            return super().update(*args, **kwargs)

        def reset(self) -> None:
            super().reset()
            _restore(self)

        __reduce_ex__ = _refuse

    return Layer


@cache
def _pruned_cache(own: Any) -> Any:
    """The class that stands in for a pruned cache's own class `own`. The frames follow the cache's samples."""

    class Cache(own):
        filled: Filled

        def reorder_cache(self, beam_idx: Any) -> None:
            super().reorder_cache(beam_idx)
            self.filled.regroup(lambda frame: frame.of_samples(beam_idx))

        def batch_select_indices(self, indices: Any) -> None:
            super().batch_select_indices(indices)
            self.filled.regroup(lambda frame: frame.of_samples(indices))

        def batch_repeat_interleave(self, repeats: int) -> None:
            super().batch_repeat_interleave(repeats)
            self.filled.regroup(lambda frame: frame.repeated(repeats))

        def reset(self) -> None:
            super().reset()
            _restore(self)

        __iter__ = __reduce_ex__ = _refuse

    return Cache


def _refuse(*_args: Any) -> NoReturn:
    """Refuse what copies or rebuilds a pruned cache: copy, pickle, torch.save, `DynamicCache(cache)`."""
    raise UnsupportedInput(
        "a copy of a cache that prune() filled, or one that is rebuilt from its keys and values, does not tell which "
        "tokens each layer holds: decode with the cache itself, inside the context that filled it"
    )


def guard(cache: Any, frames: dict[int, Frame]) -> None:
    """Make a cache that a prefill filled a pruned one: it follows its samples, and it refuses what would be wrong."""
    if not frames:
        return
    filled = Filled(frames)
    for index, layer in enumerate(cache.layers):
        frame = frames.get(index)
        dropped = frame.full_length - frame.index.shape[1] if frame else 0
        _stand_in(layer, _pruned_layer, filled=filled, dropped=dropped)
        if layer.is_sliding:
            layer.cumulative_length += dropped
    _stand_in(cache, _pruned_cache, filled=filled)


def close(caches: Iterable[Any]) -> None:
    """Make the pruned caches of a closed context refuse.

    Outside, nothing cuts masks and positions to what each layer holds, and the logits would be wrong without an error.
    """
    for pruned in caches:
        if "filled" in vars(pruned):
            pruned.filled.closed = True


def _own_class(part: Any) -> type:
    """The class of a cache or a layer, in the library's words."""
    return type(part).__bases__[0] if "filled" in vars(part) else type(part)


def _stand_in(part: Any, pruned: Callable[[type], Any], **facts: Any) -> None:
    """Let a pruned class stand in for the class of a cache or a layer, and set its facts."""
    part.__class__ = pruned(_own_class(part))
    vars(part).update(facts)


def _restore(part: Any) -> None:
    """Give a cache or a layer that was emptied its own class back."""
    part.__class__ = _own_class(part)
    for name in ("filled", "dropped"):
        vars(part).pop(name, None)
