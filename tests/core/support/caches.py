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
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import prune
from trio_core.methods.divprune import DivPrune
from trio_core.methods.grid import Grid
from trio_core.models.adapter import families

GROUP = Group("Caches")
WORDS = (11, 23, 35)


def step(model: Any, cache: Any, word: int, past: int, rows: int = 1) -> Tensor:
    """One decode step. Returns the logits [B, V]. past: tokens of the full sequence before it."""
    return bench.forward(
        model,
        {"input_ids": torch.full((rows, 1), word), "attention_mask": torch.ones(rows, past + 1, dtype=torch.long)},
        past_key_values=cache,
    ).logits[:, -1]


def steps_are_right(cache: Any = None, model: PreTrainedModel | None = None) -> str:
    """Fill a cache with a prompt, then decode three words."""
    model, one = model or bench.model(), bench.sample()
    past = one["input_ids"].shape[1]
    with prune(model, bench.METHOD) as trace:
        output = bench.forward(model, one, past_key_values=cache, use_cache=True)
        seen = [output.logits[0, -1]]
        seen += [step(model, output.past_key_values, word, past + i)[0] for i, word in enumerate(WORDS)]
    first, *later = bench.shortened(trace, one, WORDS)
    assert all(bench.near(ours, wanted) for ours, wanted in zip(seen, [first[-1], *later], strict=True))
    return f"{bench.dropped(trace)}; the logits of {len(WORDS)} steps are those of the physically shortened sequence"


GROUP.works("`DynamicCache`, made by the model", lambda: f"{steps_are_right()}.")
GROUP.works("`DynamicCache()`, made by the caller", lambda: f"{steps_are_right(DynamicCache())}.")
GROUP.refused(
    '`generate(cache_implementation="static")`',
    lambda model, one: bench.generate(model, one, cache_implementation="static"),
)


@GROUP.refused("`StaticCache`, made by the caller")
def static_cache(model, one):
    cache = StaticCache(config=model.config.get_text_config(), max_cache_len=200)
    bench.forward(model, one, past_key_values=cache)


class ExactLayer(QuantizedLayer):
    """A quantised layer whose backend keeps every bit, since those that transformers has need other packages."""

    def _quantize(self, tensor: Tensor, axis: int) -> Tensor:  # noqa: ARG002
        return tensor

    def _dequantize(self, q_tensor: Tensor) -> Tensor:
        return q_tensor


def with_layers(model: Any, one: bench.Inputs, layer: Callable[[], Any]) -> None:
    bench.forward(model, one, past_key_values=Cache(layers=[layer() for _ in range(tiny.NUM_LAYERS)]))


GROUP.refused(
    "A quantised cache with a residual of two tokens (a stand-in that keeps every bit for the backend)",
    lambda model, one: with_layers(model, one, partial(ExactLayer, residual_length=2)),
)


@GROUP.refused("A cache quantised to 8-bit floating point (`Fp8QuantizedLayer`)")
def quantised_fp8(model, one):
    tiny.needs(5, 21, "there is no Fp8QuantizedLayer")
    with_layers(model, one, cache_utils.Fp8QuantizedLayer)


@GROUP.works("A sliding window that the prompt outgrows (Gemma 3)")
def sliding() -> str:
    config: Any = families["Gemma 3"].toy_config()
    config.text_config.sliding_window = 12
    model = type(tiny.model("gemma3"))._from_config(config, attn_implementation="eager").eval()
    model.load_state_dict(tiny.model("gemma3", "eager").state_dict())
    assert model.generation_config is not None
    model.generation_config.eos_token_id = None
    one, method = tiny.sample("gemma3"), Grid(retention=0.5, layers=bench.LAYERS)
    with prune(model, method) as trace:
        cached = bench.generate(model, one)
        counts = bench.dropped(trace)
        uncached = bench.generate(model, one, use_cache=False)
    assert all(bench.near(a[0], b[0]) for a, b in zip(cached.logits, uncached.logits, strict=True))
    return f"{counts}; with a cache as without one, by a method that does not look at the text."


# --- a cache that was filled in a context ----------------------------------------------------------------------------

UNEQUAL = tiny.unequal_spans("llava")
SHORTENED = "the logits are those of the physically shortened sequence."


def filled(model: Any, inputs: bench.Inputs) -> tuple[Any, int]:
    """The cache of a prompt, and the prompt's length."""
    output = bench.forward(model, inputs, use_cache=True)
    return output.past_key_values, inputs["input_ids"].shape[1]


def decoded(rebuild: Callable[[Any], Any], method: Any = bench.METHOD, *, inside: bool, unequal: bool = False) -> None:
    """Fill a cache inside a context, rebuild it, and decode with the other one.

    inside: rebuild it and decode inside the context; else after it.
    unequal: a batch with unequal pictures and no padding.
    """
    model, inputs = bench.model(), tiny.batch(UNEQUAL) if unequal else bench.sample()
    with prune(model, method):
        cache, past = filled(model, inputs)
        if inside:
            step(model, rebuild(cache), 11, past, len(inputs["input_ids"]))
    step(model, rebuild(cache), 11, past, len(inputs["input_ids"]))


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
GROUP.refused(f"{_filled_inside}: one sample", partial(decoded, the_same, inside=False))
GROUP.refused(
    f"{_filled_inside}: a batch with unequal pictures and no padding",
    partial(decoded, the_same, inside=False, unequal=True),
)


@GROUP.refused(f"{_filled_inside}: `generate` goes on from it")
def outside_generate() -> None:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        first = bench.generate(model, one)
    ids = torch.cat([first.sequences, torch.tensor([[11, 23]])], dim=1)
    bench.generate(
        model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, past_key_values=first.past_key_values
    )


@GROUP.refused("A cache that was filled in one context decodes in the next one")
def next_context() -> None:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, bench.sample())
    with prune(model, bench.METHOD):
        step(model, cache, 11, past)


@GROUP.works("Another cache decodes outside, while one that was filled inside is still there")
def other_cache_outside() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        pruned, _ = filled(model, one)
    cache, past = filled(model, one)
    logits = step(model, cache, 11, past)
    assert pruned is not cache
    ids = torch.cat([one["input_ids"], torch.tensor([[11]])], dim=1)
    longer = {**one, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert bench.near(logits[0], bench.forward(model, longer).logits[0, -1])
    return f"{bench.dropped(trace)} inside; outside the logits are those of the dense model on the longer prompt."


@GROUP.works("A cache that was filled before the context decodes inside it")
def filled_before() -> str:
    model, one = bench.model(), bench.sample()
    cache, past = filled(model, one)
    expected = step(model, copy.deepcopy(cache), 11, past)
    with prune(model, bench.METHOD) as trace:
        assert bench.near(step(model, cache, 11, past)[0], expected[0])
        bench.forward(model, one)
    return f"{bench.dropped(trace)} in a prompt of its own; the old cache gives the dense model's logits."


GROUP.refused(
    "`copy.deepcopy(cache)` inside the context; the copy decodes", partial(decoded, copy.deepcopy, inside=True)
)


@GROUP.refused("`copy.deepcopy(cache)` inside the context; the copy decodes outside")
def copy_outside() -> None:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, tiny.batch(UNEQUAL))
        copied = copy.deepcopy(cache)
    step(model, copied, 11, past, rows=2)


_another = "Another `DynamicCache` gets the"
for _title, _setup in (
    ("`DynamicCache(list(cache))` inside the context", partial(decoded, as_list, inside=True)),
    ("`DynamicCache(list(cache))` outside the context", partial(decoded, as_list, inside=False)),
    ("`torch.save(cache)`, and `torch.load` of it decodes", partial(decoded, as_saved, inside=True)),
    (
        f"{_another} layers of a cache that was filled inside, and decodes inside",
        partial(decoded, with_its_layers, inside=True),
    ),
    (
        f"{_another} layers of a cache that was filled inside, and decodes outside",
        partial(decoded, with_its_layers, inside=False),
    ),
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
        bench.forward(model, one, past_key_values=cache)
    step(model, cache, 11, one["input_ids"].shape[1])


@GROUP.works("`cache.reset()` outside the context, then `DynamicCache(list(cache))` of a dense prompt in it")
def reset_outside() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD) as trace:
        cache, past = filled(model, one)
    cache.reset()
    bench.forward(model, one, past_key_values=cache)
    dense = step(model, filled(model, one)[0], 11, past)
    assert torch.equal(step(model, DynamicCache(list(cache)), 11, past), dense)
    return f"{bench.dropped(trace)} inside; outside the logits are those of a new dense cache."


@GROUP.works(
    "`cache.reset()` of a cache that DivPrune shortened in every layer, then another prompt in it", method="divprune"
)
def reset_encoder_stage(model, one, trace):
    tiny.needs(5, 18, "a cache that was reset keeps its length")
    cache = DynamicCache()
    bench.forward(model, bench.sample("small"), past_key_values=cache)
    cache.reset()
    again = bench.forward(model, one, past_key_values=cache)
    anew = bench.forward(model, one)
    assert torch.equal(again.logits[:, -9:], anew.logits[:, -9:])
    return f"32 → {trace.stages[0].tokens_after} picture tokens; the logits are those of a new cache."


@GROUP.works("`cache.crop()` back to the prompt's end, inside the context")
def cropped_to_prompt(model, one, trace):
    cache, past = filled(model, one)
    for i in range(2):
        step(model, cache, 50 + i, past + i)
    cache.crop(-2)
    logits = [step(model, cache, word, past + i)[0] for i, word in enumerate(WORDS)]
    assert all(bench.near(a, b) for a, b in zip(logits, bench.shortened(trace, one, WORDS)[1:], strict=True))
    return f"{bench.dropped(trace)}; new words are those of the physically shortened sequence."


@GROUP.refused("`cache.crop()` into the prompt, inside the context")
def cropped_into_prompt(model, one):
    cache, past = filled(model, one)
    cache.crop(-2)
    step(model, cache, 11, past - 2)


@GROUP.works("`cache.reset()`, then another prompt in the same cache")
def reset() -> str:
    tiny.needs(5, 18, "a cache that was reset keeps its length")
    model = bench.model()
    cache = DynamicCache()
    with prune(model, bench.METHOD):
        bench.forward(model, bench.sample("small"), past_key_values=cache)
        cache.reset()
    return f"{steps_are_right(cache, model)}."


@GROUP.works("`cache.batch_repeat_interleave(3)` inside the context: three answers to one prompt")
def repeated(model, one, trace):
    cache, past = filled(model, one)
    cache.batch_repeat_interleave(3)
    logits = step(model, cache, 11, past, rows=3)
    expected = bench.shortened(trace, one, [11])[1]
    assert all(bench.near(row, expected) for row in logits)
    return f"{bench.dropped(trace)}; each row's logits are those of the physically shortened sequence."


def regrouped(model: Any, trace: Any, method: str, samples: list[int]) -> str:
    """Select or reorder the samples of a cache, and decode. samples: those that it holds then, in order."""
    cache, past = filled(model, tiny.batch(UNEQUAL))
    getattr(cache, method)(torch.tensor(samples))
    for logits, sample in zip(step(model, cache, 11, past, rows=len(samples)), samples, strict=True):
        right = bench.shortened(trace, UNEQUAL[sample], [11], row=sample)[1]
        assert bench.near(logits, right), "it decoded, and wrongly"
    return f"{bench.dropped(trace)}; {SHORTENED}"


GROUP.works(
    "`cache.batch_select_indices([0])` inside the context: a sample of a batch with unequal pictures leaves",
    lambda model, trace: regrouped(model, trace, "batch_select_indices", [0]),
)
GROUP.works(
    "`cache.reorder_cache([1, 0])` inside the context: two samples with unequal pictures change places",
    lambda model, trace: regrouped(model, trace, "reorder_cache", [1, 0]),
)
