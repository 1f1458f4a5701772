"""What a pruned cache holds. Each layer of it has its own length; the library asks a few of them for the sequence's."""

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
        raise UnsupportedInput("this cache is a copy of one that is gone: decode with the cache that was filled")
    return held(alive) + dropped


class Regroup:
    """A method of a pruned cache that selects or repeats its samples; it does the same to the samples' frames.

    name: `reorder_cache` (beam search), `batch_select_indices` or `batch_repeat_interleave`.
    """

    def __init__(self, cache: Any, name: str, frames: dict[int, Frame]):
        self.cache = ref(cache)  # a cache that held itself would stay until the collector comes by
        self.name = name
        self.frames = frames

    def __call__(self, how: Any) -> None:
        """how: [B'], the samples that stay, in order; or how often each is repeated."""
        if (cache := self.cache()) is None:
            raise UnsupportedInput("this cache is a copy of one that is gone: decode with the cache that was filled")
        getattr(type(cache), self.name)(cache, how)
        moved: dict[int, Frame] = {}
        for index, frame in self.frames.items():
            if id(frame) not in moved:
                moved[id(frame)] = frame.repeated(how) if isinstance(how, int) else frame.of_samples(how)
            self.frames[index] = moved[id(frame)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., NoReturn]:
        return _copied


def follow(cache: Any, frames: dict[int, Frame]) -> None:
    """Let the frames follow a cache whose samples are reordered, selected or repeated."""
    if frames:
        for name in ("reorder_cache", "batch_select_indices", "batch_repeat_interleave"):
            setattr(cache, name, Regroup(cache, name, frames))


def _copied(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnsupportedInput("this cache is a copy of one that prune() filled: decode with the cache that was filled")


def close(caches: Iterable[tuple[Any, dict[int, Frame]]]) -> None:
    """Make the pruned caches of a closed context raise when they are used.

    Outside, nothing cuts masks and positions to what each layer holds, and the logits would be wrong without an error.
    """
    for cache, frames in caches:
        if frames:
            cache.update = Closed(cache)


class Closed:
    """The `update` of a pruned cache outside its context. A cache that was emptied is like any other."""

    def __init__(self, cache: Any):
        self.cache = ref(cache)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise UnsupportedInput while the cache holds what the context left in it."""
        cache = self.cache()
        if cache is None or any(held(layer) for layer in cache.layers):
            _refuse_closed()
        del cache.update
        return cache.update(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., NoReturn]:
        return _refuse_closed


def _refuse_closed(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnsupportedInput(
        "this cache was filled inside a prune() context that is closed, and its layers hold different tokens: decode "
        "inside the context, or fill a new cache outside"
    )
