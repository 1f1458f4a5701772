"""Caches: their kinds, and what happens to one that was filled in a context."""

import copy
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, StaticCache, cache_utils
from transformers.cache_utils import Cache, QuantizedLayer

from tests.core import tiny
from tests.core.models.test_families import windowed
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.methods.divprune import DivPrune
from trio_core.methods.grid import Grid

GROUP = Group("Caches")
WORDS = (11, 23, 35)


def step(model: Any, cache: Any, word: int, past: int, rows: int = 1) -> Tensor:
    """One decode step. Returns the logits [B, V]. past: tokens of the full sequence before it."""
    return bench.forward(
        model,
        {"input_ids": torch.full((rows, 1), word), "attention_mask": torch.ones(rows, past + 1, dtype=torch.long)},
        **{tiny.CACHE: cache},
    ).logits[:, -1]


def filled(model: Any, one: bench.Inputs, cache: Any = None) -> tuple[Any, int]:
    """The cache of a prompt, and the prompt's length."""
    output = bench.forward(model, one, use_cache=True, **{tiny.CACHE: cache})
    return output[tiny.CACHE], one["input_ids"].shape[1]


def words_are_right(model: Any, one: bench.Inputs, trace: Any, cache: Any = None) -> None:
    """Decode three words behind a prompt. cache: it is filled with the prompt."""
    cache, past = filled(model, one, cache)
    seen = [step(model, cache, word, past + i)[0] for i, word in enumerate(WORDS)]
    bench.steps_are_right(trace, one, seen, WORDS)


GROUP.works("`DynamicCache`, made by the model", words_are_right)
GROUP.works(
    "`DynamicCache()`, made by the caller",
    lambda model, one, trace: words_are_right(model, one, trace, DynamicCache()),
)
GROUP.refused('`generate(cache_implementation="static")`', partial(bench.generate, cache_implementation="static"))


class ExactLayer(QuantizedLayer):
    """A quantised layer whose backend keeps every bit, since those that transformers has need other packages."""

    def _quantize(self, tensor: Tensor, axis: int) -> Tensor:  # noqa: ARG002
        return tensor

    def _dequantize(self, q_tensor: Tensor) -> Tensor:
        return q_tensor


def cache_of(layer: Callable[[], Any]) -> Cache:
    return Cache(layers=[layer() for _ in range(tiny.NUM_LAYERS)])


GROUP.refused(
    "`StaticCache`, made by the caller",
    lambda model, one: filled(model, one, StaticCache(config=model.config.get_text_config(), max_cache_len=200)),
)
GROUP.refused(
    "A quantised cache with a residual of two tokens (a stand-in that keeps every bit for the backend)",
    lambda model, one: filled(model, one, cache_of(partial(ExactLayer, residual_length=2))),
)


@GROUP.refused("A cache quantised to 8-bit floating point (`Fp8QuantizedLayer`)")
def quantised_fp8(model, one):
    filled(model, one, cache_of(cache_utils.Fp8QuantizedLayer))


@GROUP.works("A sliding window that the prompt outgrows (Gemma 3)")
def sliding() -> None:
    """With a cache as without one, by a method that does not look at the text."""
    model, one = windowed("gemma3", "eager", 12), tiny.sample("gemma3")
    with prune(model, Grid(retention=0.5, layers=bench.LAYERS)) as trace:
        cached = bench.generate(model, one)
        bench.dropped(trace)
        uncached = bench.generate(model, one, use_cache=False)
    assert all(bench.near(a[0], b[0]) for a, b in zip(cached.logits, uncached.logits, strict=True))


# --- a cache that was filled in a context ----------------------------------------------------------------------------

UNEQUAL = tiny.unequal_spans("llava")


def decoded(
    rebuild: Callable[[Any], Any],
    method: Any = bench.METHOD,
    *,
    fill: Callable[[Any], Any] = lambda cache: cache,
    inside: bool = False,
    unequal: bool = False,
) -> None:
    """Fill a cache inside a context, rebuild it, and decode with the other one.

    fill: is given the cache in the context. inside: rebuild it and decode inside the context; else after it.
    unequal: a batch with unequal pictures and no padding.
    """
    model, inputs = bench.model(), tiny.batch(UNEQUAL) if unequal else bench.sample()
    rows = len(inputs["input_ids"])
    with prune(model, method):
        cache, past = filled(model, inputs)
        cache = fill(cache)
        if inside:
            step(model, rebuild(cache), 11, past, rows)
    step(model, rebuild(cache), 11, past, rows)


def the_same(cache: Any) -> Any:
    return cache


def as_list(cache: Any) -> Any:
    return DynamicCache(list(cache))


def as_saved(cache: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(cache, buffer)
    return torch.load(buffer, weights_only=False)


def with_its_layers(cache: Any) -> Any:
    other = DynamicCache()
    other.layers = cache.layers
    return other


def with_its_keys(cache: Any) -> Any:
    return DynamicCache([(layer.keys, layer.values) for layer in cache.layers])


_filled_inside = "A cache that was filled inside decodes outside"
GROUP.refused(f"{_filled_inside}: one sample", partial(decoded, the_same))
GROUP.refused(
    f"{_filled_inside}: a batch with unequal pictures and no padding", partial(decoded, the_same, unequal=True)
)


@GROUP.refused(f"{_filled_inside}: `generate` goes on from it")
def outside_generate() -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        first = bench.generate(model, one)
    ids = torch.cat([first.sequences, torch.tensor([[11, 23]])], dim=1)
    again = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    bench.generate(model, again, **{tiny.CACHE: first[tiny.CACHE]})


@GROUP.refused("A cache that was filled in one context decodes in the next one")
def next_context() -> None:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, bench.sample())
    with prune(model, bench.METHOD):
        step(model, cache, 11, past)


def outside(model: PreTrainedModel, one: bench.Inputs) -> Any:
    """The cache of a prompt that was filled in a context of its own, in which tokens were dropped."""
    with prune(model, bench.METHOD) as trace:
        cache, _ = filled(model, one)
    bench.dropped(trace)
    return cache


@GROUP.works("Another cache decodes outside, while one that was filled inside is still there")
def other_cache_outside() -> None:
    model, one = bench.model(), bench.sample()
    pruned = outside(model, one)
    cache, past = filled(model, one)
    assert pruned is not cache
    ids = torch.cat([one["input_ids"], torch.tensor([[11]])], dim=1)
    longer = bench.forward(model, one, input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert bench.near(step(model, cache, 11, past)[0], longer[0, -1])


@GROUP.works("A cache that was filled before the context decodes inside it")
def filled_before() -> None:
    model, one = bench.model(), bench.sample()
    cache, past = filled(model, one)
    expected = step(model, copy.deepcopy(cache), 11, past)
    with prune(model, bench.METHOD) as trace:
        assert bench.near(step(model, cache, 11, past)[0], expected[0])
        bench.forward(model, one)
    bench.dropped(trace)


_another = "Another `DynamicCache` gets the"
for _title, _setup in (
    ("`copy.deepcopy(cache)` inside the context; the copy decodes", partial(decoded, copy.deepcopy, inside=True)),
    (
        "`copy.deepcopy(cache)` inside the context; the copy decodes outside",
        partial(decoded, the_same, fill=copy.deepcopy, unequal=True),
    ),
    ("`DynamicCache(list(cache))` inside the context", partial(decoded, as_list, inside=True)),
    ("`DynamicCache(list(cache))` outside the context", partial(decoded, as_list)),
    ("`torch.save(cache)`, and `torch.load` of it decodes", partial(decoded, as_saved, inside=True)),
    (
        f"{_another} layers of a cache that was filled inside, and decodes inside",
        partial(decoded, with_its_layers, inside=True),
    ),
    (f"{_another} layers of a cache that was filled inside, and decodes outside", partial(decoded, with_its_layers)),
    (
        f"{_another} keys and values that DivPrune shortened in every layer; it decodes inside",
        partial(decoded, with_its_keys, DivPrune(retention=0.5), inside=True),
    ),
):
    GROUP.refused(_title, _setup)


@GROUP.refused("A forward is interrupted (`KeyboardInterrupt`) in layer 4, and its half-filled cache decodes")
def half_filled(model, one):
    cache = DynamicCache()
    with tiny.interrupted(model.get_submodule("model.language_model.layers.3")):
        filled(model, one, cache)
    step(model, cache, 11, one["input_ids"].shape[1])


@GROUP.works("`cache.reset()` outside the context, then `DynamicCache(list(cache))` of a dense prompt in it")
def reset_outside() -> None:
    model, one = bench.model(), bench.sample()
    cache = outside(model, one)
    cache.reset()
    _, past = filled(model, one, cache)
    dense = step(model, filled(model, one)[0], 11, past)
    assert torch.equal(step(model, as_list(cache), 11, past), dense)


def cache_that_was_reset(model: Any) -> Any:
    """The cache of another prompt, which has left it."""
    cache, _ = filled(model, bench.sample("small"))
    cache.reset()
    return cache


@GROUP.works(
    "`cache.reset()` of a cache that DivPrune shortened in every layer, then another prompt in it", method="divprune"
)
def reset_encoder_stage(model, one):
    again = bench.forward(model, one, **{tiny.CACHE: cache_that_was_reset(model)})
    anew = bench.forward(model, one)
    assert torch.equal(again.logits[:, -9:], anew.logits[:, -9:])


GROUP.works(
    "`cache.reset()`, then another prompt in the same cache",
    lambda model, one, trace: words_are_right(model, one, trace, cache_that_was_reset(model)),
)


@GROUP.works("`cache.crop()` back to the prompt's end, inside the context")
def cropped_to_prompt(model, one, trace):
    cache, past = filled(model, one)
    for i in range(2):
        step(model, cache, 50 + i, past + i)
    cache.crop(-2)
    seen = [step(model, cache, word, past + i)[0] for i, word in enumerate(WORDS)]
    bench.steps_are_right(trace, one, seen, WORDS)


@GROUP.refused("`cache.crop()` into the prompt, inside the context")
def cropped_into_prompt(model, one):
    cache, past = filled(model, one)
    cache.crop(-2)
    step(model, cache, 11, past - 2)


def regrouped(
    samples: list[bench.Inputs], change: Callable[[Any], Any], order: list[int], model: Any, trace: Any
) -> None:
    """Change the samples of a cache, and decode. order: those that it holds then."""
    cache, past = filled(model, tiny.batch(samples))
    change(cache)
    for logits, sample in zip(step(model, cache, 11, past, rows=len(order)), order, strict=True):
        bench.steps_are_right(trace, samples[sample], [logits], [11], row=sample)


for _title, _samples, _change, _order in (
    (
        "`cache.batch_repeat_interleave(3)` inside the context: three answers to one prompt",
        [bench.sample()],
        lambda cache: cache.batch_repeat_interleave(3),
        [0, 0, 0],
    ),
    (
        "`cache.batch_select_indices([0])` inside the context: a sample of a batch with unequal pictures leaves",
        UNEQUAL,
        lambda cache: cache.batch_select_indices(torch.tensor([0])),
        [0],
    ),
    (
        "`cache.reorder_cache([1, 0])` inside the context: two samples with unequal pictures change places",
        UNEQUAL,
        lambda cache: cache.reorder_cache(torch.tensor([1, 0])),
        [1, 0],
    ),
):
    GROUP.works(_title, partial(regrouped, _samples, _change, _order))
