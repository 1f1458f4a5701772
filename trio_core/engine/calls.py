"""The names that we know in a call of a model, of its decoder and of a layer, and in what the decoder returns.

transformers renames arguments from release to release: the cache is `past_key_values` up to 5.23 and `cache` from 5.24
on. Each name is read here and nowhere else. Where tokens were dropped, another name is refused, because what it brings
may describe tokens that are gone.
"""

from collections.abc import Iterator, Mapping
from inspect import signature
from numbers import Number
from typing import Any

import numpy as np
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel
from transformers.utils.generic import ModelOutput

from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.models.adapter import DEEPSTACK
from trio_core.releases import KNOWN
from trio_core.tensors import HiddenBSD

Kwargs = dict[str, Any]
"""The keyword arguments of a decoder layer."""

CACHE = ("cache", "past_key_values")
"""The names of the cache of keys and values."""
_PROMPT = ("input_ids", "attention_mask")
"""What tells where the pictures and the padding are."""
_CUT = ("attention_mask", "position_ids", "position_embeddings")
"""What describes the sequence, and is cut to the tokens left."""
_WITHOUT_TOKENS = {
    *("use_cache", "logits_to_keep", "num_items_in_batch", "image_sizes", "return_dict"),
    "tokenizer",  # generate() hands it on
    "labels",  # Gemma 4 hands them on; the loss is computed behind the decoder
    *("output_attentions", "output_hidden_states", "output_router_logits"),
}
"""What has no entry for each token of the sequence."""
_SHARED = "shared_kv_states"
"""Gemma 4's place for keys that later layers share. Its adapter refuses a model with such layers."""
_EMPTY = "per_layer_inputs"
"""Gemma 4's inputs of each layer's own: None in a model that its adapter lets through."""
_LAYER = {"hidden_states", *_CUT, *CACHE, *_WITHOUT_TOKENS, _SHARED}
"""The arguments of a layer."""
DECODER = {"input_ids", "inputs_embeds", *_CUT, *CACHE, *_WITHOUT_TOKENS, *DEEPSTACK}
"""The arguments of a decoder."""
_DECODER_OUTPUT = {"last_hidden_state", *CACHE, "hidden_states", "attentions", "router_logits", _SHARED}
"""The fields of a decoder's output."""
_OBJECTS = {*CACHE, "attention_mask", "mm_encoder_outputs", "tokenizer"}
"""The arguments of a model that may be an object of the library."""
_PLAIN = (Tensor, np.ndarray, str, Number, type(None))
"""What an argument of a model may be under any name."""


def cache_of(arguments: Mapping[str, Any]) -> Any:
    """The cache among a call's arguments, or in an output; None without one."""
    return next((arguments[name] for name in CACHE if arguments.get(name) is not None), None)


def cache_argument(module: nn.Module) -> str:
    """The name by which a model, a decoder or a layer takes its cache. Raises UnsupportedModel where it takes none."""
    parameters = signature(module.forward).parameters
    if (name := next((name for name in CACHE if name in parameters), None)) is None:
        raise UnsupportedModel(f"{type(module).__name__} takes no cache that prune() knows by name: {KNOWN}")
    return name


def without_cache(kwargs: Kwargs) -> Kwargs:
    """The keyword arguments of a layer that is to run past its cache."""
    return {**kwargs, **{name: None for name in CACHE if name in kwargs}, "use_cache": False}


def check_parameters(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel where the library's class takes the token ids or the padding under another name.

    A class of the user's own may hand on any arguments.
    """
    classes = (cls for cls in type(model).__mro__ if cls.__module__.startswith("transformers.models."))
    own = next((cls for cls in classes if "forward" in vars(cls)), None)
    missing = [name for name in _PROMPT if own and name not in signature(own.forward).parameters]
    if own and missing:
        raise UnsupportedModel(f"{own.__name__} takes no {missing[0]!r} that prune() knows by name: {KNOWN}")


def check_model_call(inputs: Mapping[str, Any]) -> None:
    """Raise UnsupportedInput for an argument of a model that could be a cache under a name that we do not know.

    A step on such a cache would count as a new prompt. It reads no tensor.
    """
    for name, value in inputs.items():
        if name not in _OBJECTS and (other := next(_objects(value), None)) is not None:
            raise UnsupportedInput(
                f"{name}: {type(other).__name__} is no argument of a model that prune() knows, and it may be a cache: "
                "leave it out"
            )


def arguments_of(model: nn.Module) -> set[str]:
    """The names that a model's own `forward` or that of a base class takes, and those that its decoder takes."""
    own = (vars(cls)["forward"] for cls in type(model).__mro__ if "forward" in vars(cls))
    return {*DECODER, *_OBJECTS}.union(*(signature(forward).parameters for forward in (model.forward, *own)))


def check_decoder_call(decoder: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> None:
    """Raise UnsupportedInput for an argument of a decoder that is not known by name."""
    check_names(decoder, dict(enumerate(args, start=1)), kwargs, DECODER)


def check_layer_call(layer: nn.Module, rest: tuple[Any, ...], kwargs: Kwargs) -> None:
    """Raise UnsupportedInput for an argument of a layer that is not known by name.

    rest: the arguments by position behind the hidden states.

    Raises UnsupportedModel for a layer that gets no mask or no cosines and sines: it has other names for them, or
    positions of another kind.
    """
    if rest or not kwargs.keys() <= _LAYER:
        named = {name: value for name, value in kwargs.items() if value is not None}  # a missing mask is named below
        check_names(layer, dict(enumerate(rest, start=2)), named, _LAYER)
    rotary = kwargs.get("position_embeddings")
    cosines_and_sines = isinstance(rotary, tuple | list) and len(rotary) == 2
    for name, known in (("attention_mask", "attention_mask" in kwargs), ("position_embeddings", cosines_and_sines)):
        if not known:
            raise UnsupportedModel(
                f"{type(layer).__name__} gets no {name!r} that prune() knows how to fit to the tokens that are left: "
                f"{KNOWN}"
            )


def check_same_cache(model: nn.Module, number: int, cache: Any, kwargs: Kwargs) -> None:
    """Raise UnsupportedModel for a layer that does not get the cache of its forward, or that gets two.

    number: of the layer, from 1. cache: of the forward; None without one.
    """
    if {id(kwargs.get(name)) for name in CACHE} - {id(None)} != {id(cache)} - {id(None)}:
        raise UnsupportedModel(
            f"decoder layer {number} of {type(model).__name__} gets another cache than the model was given, or none: "
            f"pass it as {cache_argument(model)!r}, and without gradient checkpointing"
        )


def hidden_of(layer: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> tuple[HiddenBSD, tuple[Any, ...], Kwargs]:
    """The hidden states [B, S, D] that enter a layer, the other arguments by position, and those by keyword.

    Raises UnsupportedModel where they come under another name.
    """
    hidden, rest = (args[0], args[1:]) if args else (kwargs.get("hidden_states"), ())
    if not isinstance(hidden, Tensor):
        raise UnsupportedModel(
            f"{type(layer).__name__} is called without 'hidden_states' (its arguments: {', '.join(sorted(kwargs))}): "
            f"{KNOWN}"
        )
    return hidden, rest, {name: value for name, value in kwargs.items() if name != "hidden_states"}


def check_decoder_output(decoder: nn.Module, output: Any) -> None:
    """Raise UnsupportedModel for the output of a decoder that has a field which we do not know, or no fields."""
    fields = {name for name, value in output.items() if value is not None} if isinstance(output, ModelOutput) else None
    if fields is None or not fields <= _DECODER_OUTPUT:
        unknown = type(output).__name__ if fields is None else f"a field {min(fields - _DECODER_OUTPUT)!r}"
        raise UnsupportedModel(
            f"{type(decoder).__name__} returns {unknown}, which prune() does not know, so that rows of dropped tokens "
            f"cannot be put back: {KNOWN}"
        )


def check_filled(model: PreTrainedModel, inputs: Mapping[str, Any], output: Any, cache: Any) -> None:
    """Raise UnsupportedModel where a pruned prefill filled a cache that we did not see.

    inputs, output: of the model's forward. cache: what the prefill registered; None for nothing.
    """
    values = output.values() if isinstance(output, ModelOutput) else output if isinstance(output, tuple) else ()
    unseen = any(isinstance(value, Cache) and value is not cache for value in values)
    missing = inputs.get("use_cache") and cache is None and not model.is_activation_checkpointing
    if unseen or missing:
        raise UnsupportedModel(
            f"{type(model).__name__} filled a cache that its decoder layers did not get under a name that prune() "
            f"knows ({', '.join(CACHE)}): {KNOWN}"
        )


def check_names(module: nn.Module, by_position: dict[int, Any], kwargs: Kwargs, known: set[str]) -> None:
    """Raise UnsupportedInput for the first argument that is not known. None has a name too: a mask may be None.

    by_position: arguments without a name, by their place, from 1. None is left out by its place.
    """
    unknown = [f"argument {place} by position" for place, value in by_position.items() if value is not None]
    unknown += [name for name, value in kwargs.items() if name not in known and (value is not None or name != _EMPTY)]
    for name in unknown[:1]:
        raise UnsupportedInput(
            f"{name}: prune() does not know this argument of {type(module).__name__}, and it may describe tokens "
            "that were dropped: leave it out"
        )


def _objects(value: Any) -> Iterator[Any]:
    """The parts of an argument that are no tensor, number or text. Lists and dictionaries are looked into."""
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _objects(part)
    elif not isinstance(value, _PLAIN):
        yield value
