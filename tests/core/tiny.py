"""Toy models and toy inputs of every family, by a short name, and a stage without a model.

The families make both themselves (`Adapter.toy`, `Adapter.toy_sample`). The weights are random and large enough that
each token's hidden state is its own. LLaVA-1.5's toy has as many keys as queries, the others have grouped keys.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlavaForConditionalGeneration, PreTrainedModel

from trio_core import prune
from trio_core.engine import calls
from trio_core.methods.method import Method
from trio_core.methods.view import Picture, Signal, Video, View
from trio_core.models import families
from trio_core.models.encoder import Encoder
from trio_core.models.toy import (
    IMAGE,
    NUM_LAYERS,
    VIDEO,
    VISION_END,
    VISION_START,
    VOCABULARY,
    WORDS,
    Random,
    Size,
    batch,
    build,
)
from trio_core.rules.schedule import Schedule
from trio_core.trace import Trace

__all__ = ["IMAGE", "NUM_LAYERS", "VIDEO", "VISION_END", "VISION_START", "VOCABULARY", "WORDS", "batch"]


CACHE = next(name for name in calls.CACHE if name in signature(LlavaForConditionalGeneration.forward).parameters)
"""The name of the cache among a model's arguments, and in its output, in this release of transformers."""


def short_name(family: str) -> str:
    """`Qwen2.5-VL` → `qwen2_5_vl`, `Gemma 3` → `gemma3`. LLaVA-1.5 is `llava`."""
    return family.removesuffix("-1.5").lower().replace(" ", "").replace("-", "_").replace(".", "_")


NAMES = {short_name(family): family for family in families}
FAMILIES = tuple(NAMES)
CACHED = ("llava", "llava_next", "qwen2_5_vl", "qwen3_vl", "internvl")
"""Families whose cache holds every key. Qwen3-VL norms queries and keys, and adds to its first layers' input."""
MULTI_AXIS = tuple(name for name, family in NAMES.items() if families[family].multi_axis_positions)
"""Families whose positions have several axes."""
WITH_VIDEOS = ("video_llava", "llava_next_video", "llava_onevision", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
"""Families whose videos have frames."""
ATTENTION = ("eager", "sdpa")
SLOW = pytest.mark.slow
QUICK = ("llava", "qwen2_5_vl", "gemma3")
"""One family of each kind: CLIP's tower, positions on three axes, sliding windows."""
KERNELS = [(family, attention) for family in FAMILIES for attention in families[NAMES[family]].toy_attention]
"""Every family with each attention that its decoder has here."""


def fast_first(values: Iterable[Any], *fast: Any) -> list[Any]:
    """Values for `parametrize`. All but the fast ones are marked slow; `fast` may name the first part of a tuple."""
    marked = []
    for value in values:
        parts = value if isinstance(value, tuple) else (value,)
        marked.append(pytest.param(*parts, marks=() if {value, parts[0]} & set(fast) else SLOW))
    return marked


every_family = pytest.mark.parametrize("family", fast_first(FAMILIES, *QUICK))
cached = pytest.mark.parametrize("family", fast_first(CACHED, "llava", "qwen3_vl"))
one_or_three_axes = pytest.mark.parametrize("family", ["llava", "qwen2_5_vl"])
every_kernel = pytest.mark.parametrize(
    ("family", "attention"),
    fast_first(KERNELS, *((family, families[NAMES[family]].toy_attention[-1]) for family in QUICK)),
)


@cache
def model(family: str, attention: str | None = None) -> PreTrainedModel:
    """The family's toy model, the same weights whatever the attention. Built once a session: leave it as it is.

    attention: sdpa unless told, or eager where the family has no other.
    """
    adapter = families[NAMES[family]]
    with torch.inference_mode(False):  # the first caller may be in inference mode, and later ones need gradients
        return adapter.toy(attention or adapter.toy_attention[-1], seed=len(family))


def variant(
    family: str,
    attention: str | None = None,
    seed: int = 0,
    text: dict[str, Any] | None = None,
    vision: dict[str, Any] | None = None,
    **options: Any,
) -> PreTrainedModel:
    """A toy of the family's class whose configuration differs: of its text model, of its tower, and itself."""
    adapter = families[NAMES[family]]
    config: Any = adapter.toy_config()
    for part, changes in ((config.get_text_config(), text), (config.vision_config, vision), (config, options)):
        for name, value in (changes or {}).items():
            setattr(part, name, value)
    return build(type(model(family)), config, attention or adapter.toy_attention[-1], seed)


@contextmanager
def attached(handles: Iterable[Any]) -> Iterator[None]:
    """A block at whose end hooks are removed. handles: those of the hooks."""
    handles = [*handles]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def refused(error: type[Exception] | tuple[type[Exception], ...], message: str) -> Iterator[None]:
    """The block raises the error, whose message has one line and matches."""
    with pytest.raises(error, match=message) as caught:
        yield
    assert "\n" not in str(caught.value)


@contextmanager
def interrupted(module: torch.nn.Module, error: type[BaseException] = KeyboardInterrupt) -> Iterator[None]:
    """The block ends with `error`, which a module raises where its output is ready."""

    def interrupt(*_: object) -> None:
        raise error

    with attached([module.register_forward_hook(interrupt)]):
        try:
            yield
        except error:
            return
    raise AssertionError("not interrupted")


# --- inputs ----------------------------------------------------------------------------------------------------------


def sample(family: str, size: Size = "large", before: int = 3, after: int = 9, seed: int = 0) -> dict[str, Tensor]:
    """One unpadded sample of the family: `before` words, a `small` or `large` picture, `after` words."""
    return families[NAMES[family]].toy_sample(size, before, after, seed)


def unequal_spans(family: str, before: int = 3) -> list[dict[str, Tensor]]:
    """Two samples of one length, the one with less picture and more words: no padding, and yet unequal when pruned."""
    small, large = sample(family, "small", before), sample(family, "large", before)
    longer = large["input_ids"].shape[1] - small["input_ids"].shape[1]
    return [sample(family, "small", before, after=9 + longer), large]


def pair(family: str) -> list[dict[str, Tensor]]:
    """A small picture, which a batch pads at its left, and a large one: two pictures or four tiles un-padded."""
    return [sample(family, "small", seed=1), without_videos(sample(family, after=12))]


def without_videos(one: dict[str, Tensor]) -> dict[str, Tensor]:
    """A sample without its videos."""
    ids = one["input_ids"]
    kept = {name: value for name, value in one.items() if "video" not in name}
    return {name: value[:, ids[0] != VIDEO] if value.shape == ids.shape else value for name, value in kept.items()}


def videos(family: str, after: int = 9) -> list[dict[str, Tensor]]:
    """One video of three frames; and two with more words behind, the second one of two frames where that can be."""
    return [_clips(family, 1, after, seed=1), _clips(family, 2, after + 3, seed=0)]


def _clips(family: str, count: int, after: int, seed: int) -> dict[str, Tensor]:
    adapter, random = families[NAMES[family]], Random(seed)
    lengths = (3, 2) if family in MULTI_AXIS else (3, 3)  # elsewhere the videos of a batch are one tensor
    clips = [adapter.toy_video(random, frames) for frames in lengths[:count]]
    words = [random.words(3), *(clip.ids for clip in clips), random.words(after)]
    ids = torch.tensor([[*chain(*words)]])
    pixels = {name: torch.cat([clip.inputs[name] for clip in clips]) for name in clips[0].inputs}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pixels, **adapter.toy_token_types(ids)}


@torch.no_grad()
def run(model: Any, inputs: dict[str, Tensor], method: Method | str, **options: Any) -> tuple[Tensor, Trace]:
    """The logits and the trace of one prefill. options: of a method that is given by its name."""
    with prune(model, method, **options) as trace:
        return model(**inputs, use_cache=False).logits, trace


def prefill(model: PreTrainedModel, samples: Sequence[dict[str, Tensor]], method: Method, side: str = "left") -> Trace:
    """The trace of one prefill of a batch."""
    with torch.inference_mode():
        return run(model, batch(samples, side), method)[1]


def generate(model: Any, inputs: dict[str, Tensor], tokens: int, **options: Any) -> Any:
    """Greedy generation of exactly so many tokens, with their logits. No token asks for a picture."""
    exactly = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    shown = {"suppress_tokens": [IMAGE, VIDEO], "return_dict_in_generate": True, "output_logits": True}
    return model.generate(**inputs, **{**exactly, **shown, **options})


def same(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are equal bit by bit, NaN at the same places included."""
    return torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)


def visual_rows(one: dict[str, Tensor]) -> Tensor:
    """[V0] where an unpadded sample's visual tokens stand."""
    ids = one["input_ids"][0]
    return ((ids == IMAGE) | (ids == VIDEO)).nonzero().squeeze(1)


# --- a stage without a model ------------------------------------------------------------------------------------------


def view(count: int, budget: int, signals: dict[Signal, Any] | None = None, hidden: Tensor | None = None) -> View:
    """A stage before the decoder on one sample: two words, a picture of `count` tokens, and two words.

    signals: what a method may read. hidden: [1, S, D].
    """
    length = 2 + count + 2
    schedule = Schedule((0,), (budget,), count, 2)
    picture = Picture(torch.arange(2, 2 + count), torch.arange(count), budget, 2, schedule)
    hidden = torch.zeros(1, length, 2) if hidden is None else hidden
    return View(0, hidden, torch.ones(1, length, dtype=torch.bool), False, (picture,), signals or {})


def video_view(features: Tensor, frames: list[list[int]], budget: int) -> View:
    """A stage before the decoder on one sample with one video. features: [N, D]. frames: the numbers [F, P]."""
    hidden = torch.cat([features.new_zeros(2, features.shape[1]), features, features.new_zeros(2, features.shape[1])])
    stage = view(len(features), budget, hidden=hidden[None])
    return replace(stage, pictures=(replace(stage.pictures[0], videos=(Video(torch.tensor(frames)),)),))


def encoder(hidden: Tensor, attention: Tensor, keys: Tensor, **options: Any) -> Encoder:
    """One crop in one row, whose patches are all visual tokens: hidden [M, D], attention [H, M], keys [M, H, E].

    options: further fields of the encoder.
    """
    count = len(hidden)
    plain = {"cls": None, "grid": (1, count), "places": (torch.arange(count),), "project": lambda patches: patches}
    return Encoder(hidden=hidden[None], attend=lambda: attention[None], keys=keys[None], **plain | options)
