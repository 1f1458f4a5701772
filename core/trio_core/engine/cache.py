"""A pruned cache: its layers have different lengths, and transformers reads the sequence's from a few of them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn
from weakref import ref

from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from trio_core.engine.frames import Frame
from trio_core.errors import UnsupportedInput

_GROWING = (DynamicLayer, DynamicSlidingWindowLayer)
"""The cache layers that simply grow. Others fix a length, quantise or index their keys."""


def check_cache(cache: Any) -> None:
    """Raise UnsupportedInput for a cache whose layers cannot have lengths of their own."""
    kinds = [type(layer) for layer in getattr(cache, "layers", ())]
    kinds += [kind] if (kind := getattr(cache, "layer_class_to_replicate", None)) else []
    other = next((kind for kind in kinds if kind not in _GROWING), None)
    if other is not None or not hasattr(cache, "layers"):
        raise UnsupportedInput(
            f"cache {type(cache).__name__}{f' of {other.__name__}' if other else ''}: its layers cannot hold different "
            "numbers of tokens; pruning needs transformers' DynamicCache, the default of generate()"
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


def report_full_length(cache: Any, frames: dict[int, Frame]) -> None:
    """Let the cache answer with the sequence's length where the library asks for it, whatever the layer still holds.

    The library asks the first layer, the first with full attention and the first with a sliding window, to size masks
    and to count positions for all layers. What each layer holds is known to the hooks alone.
    """
    sliding = [bool(limit) for limit in cache.is_sliding]
    for index in {0, *(sliding.index(kind) for kind in (True, False) if kind in sliding)}:
        if index >= len(cache.layers) or (frame := frames.get(index)) is None:
            continue
        layer, dropped = cache.layers[index], frame.full_length - frame.index.shape[1]
        if layer.is_sliding:
            layer.cumulative_length += dropped
        else:
            # By a weak reference: a cache that held itself would stay until the collector comes by.
            layer.get_seq_length = partial(_length, ref(layer), dropped)


def _length(layer: ref[Any], dropped: int) -> int:
    """The sequence's length, by a layer that holds all of it but `dropped` tokens."""
    if (alive := layer()) is None:
        raise UnsupportedInput(
            "this cache is a copy of one that no longer exists: decode with the cache that was filled"
        )
    return held(alive) + dropped if alive.is_initialized else 0


class Guarded:
    """A method of a pruned cache, guarded. A copy of the cache gets a method that refuses: its frames are unknown.

    name: of the method. The guard holds the cache weakly: a cache that held itself would stay until a collection.
    """

    def __init__(self, cache: Any, name: str):
        self.cache = ref(cache)
        self.name = name

    def alive(self) -> Any:
        """The cache. Raises UnsupportedInput where it is gone, so that this guard was taken over by a shallow copy."""
        if (cache := self.cache()) is None:
            _refuse_copy()
        return cache

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., NoReturn]:
        return _refuse_copy


class Regroup(Guarded):
    """A method that selects, reorders or repeats the cache's samples. It does the same to the samples' frames."""

    def __init__(self, cache: Any, name: str, frames: dict[int, Frame]):
        super().__init__(cache, name)
        self.frames = frames

    def __call__(self, samples_or_times: Any) -> None:
        """samples_or_times: [B'], indices of the samples to keep, in order; or how often to repeat each sample."""
        cache = self.alive()
        getattr(type(cache), self.name)(cache, samples_or_times)
        moved: dict[int, Frame] = {}
        for index, frame in self.frames.items():
            if id(frame) not in moved:
                repeats = isinstance(samples_or_times, int)
                moved[id(frame)] = (frame.repeated if repeats else frame.of_samples)(samples_or_times)
            self.frames[index] = moved[id(frame)]


class Update(Guarded):
    """The cache's `update`. Once the context is closed it refuses, until the cache is emptied."""

    closed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add keys and values to a layer. Raises UnsupportedInput outside the context that filled the cache."""
        cache = self.alive()
        if self.closed and any(held(layer) for layer in cache.layers):
            raise UnsupportedInput(
                "this cache was filled inside a prune() context that is closed, and its layers hold different tokens: "
                "decode inside the context, or fill a new cache outside"
            )
        if self.closed:
            release(cache)
        return type(cache).update(cache, *args, **kwargs)


def guard(cache: Any, frames: dict[int, Frame]) -> None:
    """Let the frames follow a pruned cache whose samples move, and let its copies refuse."""
    if frames:
        cache.update = Update(cache, "update")
        for name in ("reorder_cache", "batch_select_indices", "batch_repeat_interleave"):
            setattr(cache, name, Regroup(cache, name, frames))


def release(cache: Any) -> None:
    """Take the guards off a cache that was emptied after its context had closed."""
    for name, value in list(vars(cache).items()):
        if isinstance(value, Guarded):
            del vars(cache)[name]


def close(caches: Iterable[Any]) -> None:
    """Make the pruned caches of a closed context refuse.

    Outside, nothing cuts masks and positions to what each layer holds, and the logits would be wrong without an error.
    """
    for cache in caches:
        if isinstance(update := vars(cache).get("update"), Update):
            update.closed = True


def _refuse_copy(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnsupportedInput("this cache is a copy of one that prune() filled: decode with the cache that was filled")
