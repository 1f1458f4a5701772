"""Caches: their kinds, and what happens to one that was filled in a context."""

import copy
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, StaticCache, cache_utils
from transformers.cache_utils import Cache, QuantizedLayer

from tests.core import tiny
from tests.core.support import bench
from tests.core.support.rows import Group
from trio_core import methods, prune
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


def steps_are_right(cache: Any = None, model: PreTrainedModel | None = None, share: float = 1e-4) -> str:
    """Fill a cache with a prompt, then decode three words."""
    model, one = model or bench.model(), bench.sample()
    past = one["input_ids"].shape[1]
    with prune(model, bench.METHOD) as trace:
        output = bench.forward(model, one, past_key_values=cache, use_cache=True)
        seen = [output.logits[0, -1]]
        seen += [step(model, output.past_key_values, word, past + i)[0] for i, word in enumerate(WORDS)]
    first, *later = bench.shortened(trace, one, WORDS)
    assert all(bench.near(ours, wanted, share) for ours, wanted in zip(seen, [first[-1], *later], strict=True))
    return f"{bench.dropped(trace)}; the logits of {len(WORDS)} steps are those of the physically shortened sequence"


GROUP.works("`DynamicCache`, made by the model", lambda: f"{steps_are_right()}.")


GROUP.works("`DynamicCache()`, made by the caller", lambda: f"{steps_are_right(DynamicCache())}.")


@GROUP.refused('`generate(cache_implementation="static")`')
def static(model, one):
    bench.generate(model, bench.sample(), cache_implementation="static")


@GROUP.refused("`StaticCache`, made by the caller")
def static_of_caller() -> str:
    model = bench.model()
    return steps_are_right(StaticCache(config=model.config.get_text_config(), max_cache_len=200), model)


class ExactLayer(QuantizedLayer):
    """A quantised layer whose backend keeps every bit, since those that transformers has need other packages."""

    def _quantize(self, tensor: Tensor, axis: int) -> Tensor:  # noqa: ARG002
        return tensor

    def _dequantize(self, q_tensor: Tensor) -> Tensor:
        return q_tensor


@GROUP.refused("A quantised cache with a residual of two tokens (a stand-in that keeps every bit for the backend)")
def quantised() -> str:
    layers: Any = [ExactLayer(residual_length=2) for _ in range(tiny.NUM_LAYERS)]
    return f"{steps_are_right(Cache(layers=layers))}."


@GROUP.refused("A cache quantised to 8-bit floating point (`Fp8QuantizedLayer`)")
def quantised_fp8() -> str:
    tiny.needs(5, 21, "there is no Fp8QuantizedLayer")
    layers: Any = [cache_utils.Fp8QuantizedLayer() for _ in range(tiny.NUM_LAYERS)]
    return f"{steps_are_right(Cache(layers=layers), share=0.1)}, up to the cache's rounding."


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


def filled(model: Any, inputs: bench.Inputs) -> tuple[Any, int]:
    """The cache of a prompt, and the prompt's length."""
    output = bench.forward(model, inputs, use_cache=True)
    return output.past_key_values, inputs["input_ids"].shape[1]


@GROUP.refused("A cache that was filled inside decodes outside: one sample")
def outside() -> str:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, bench.sample())
    step(model, cache, 11, past)


@GROUP.refused("A cache that was filled inside decodes outside: a batch with unequal pictures and no padding")
def outside_unequal() -> str:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, tiny.batch(tiny.unequal_spans("llava")))
    step(model, cache, 11, past, rows=2)


@GROUP.refused("A cache that was filled inside decodes outside: `generate` goes on from it")
def outside_generate() -> str:
    model, one = bench.model(), bench.sample()
    with prune(model, bench.METHOD):
        first = bench.generate(model, one)
    ids = torch.cat([first.sequences, torch.tensor([[11, 23]])], dim=1)
    bench.generate(
        model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, past_key_values=first.past_key_values
    )


@GROUP.refused("A cache that was filled in one context decodes in the next one")
def next_context() -> str:
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


@GROUP.refused("`copy.deepcopy(cache)` inside the context; the copy decodes")
def copied(model, one):
    cache, past = filled(model, bench.sample())
    step(model, copy.deepcopy(cache), 11, past)


@GROUP.refused("`copy.deepcopy(cache)` inside the context; the copy decodes outside")
def copy_outside() -> str:
    model = bench.model()
    with prune(model, bench.METHOD):
        cache, past = filled(model, tiny.batch(tiny.unequal_spans("llava")))
        copied = copy.deepcopy(cache)
    step(model, copied, 11, past, rows=2)


def as_saved(cache: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(cache, buffer)
    return torch.load(buffer, weights_only=False)


def with_its_layers(cache: Any) -> Any:
    other = DynamicCache()
    other.layers = cache.layers
    return other


def decoded(rebuild: Callable[[Any], Any], method: Any = bench.METHOD, *, inside: bool) -> str:
    """Rebuild a pruned cache and decode with the other one."""
    model = bench.model()
    with prune(model, method):
        cache, past = filled(model, bench.sample())
        if inside:
            step(model, rebuild(cache), 11, past)
    step(model, rebuild(cache), 11, past)


@GROUP.refused("`DynamicCache(list(cache))` inside the context")
def rebuilt() -> str:
    return decoded(lambda cache: DynamicCache(list(cache)), inside=True)


@GROUP.refused("`DynamicCache(list(cache))` outside the context")
def rebuilt_outside() -> str:
    return decoded(lambda cache: DynamicCache(list(cache)), inside=False)


GROUP.refused("`torch.save(cache)`, and `torch.load` of it decodes", lambda: decoded(as_saved, inside=True))


@GROUP.refused("Another `DynamicCache` gets the layers of a cache that was filled inside, and decodes inside")
def moved() -> str:
    return decoded(with_its_layers, inside=True)


@GROUP.refused("Another `DynamicCache` gets the layers of a cache that was filled inside, and decodes outside")
def moved_outside() -> str:
    return decoded(with_its_layers, inside=False)


@GROUP.refused(
    "Another `DynamicCache` gets the keys and values that DivPrune shortened in every layer; it decodes inside"
)
def refilled() -> str:
    method = methods.find("divprune")(retention=0.5)
    return decoded(lambda cache: DynamicCache([(one.keys, one.values) for one in cache.layers]), method, inside=True)


@GROUP.refused("A forward is interrupted (`KeyboardInterrupt`) in layer 4, and its half-filled cache decodes")
def half_filled() -> str:
    model, cache = bench.model(), DynamicCache()
    with prune(model, bench.METHOD):
        with tiny.interrupted(model.get_submodule("model.language_model.layers.3")):
            bench.forward(model, bench.sample(), past_key_values=cache)
        step(model, cache, 11, bench.sample()["input_ids"].shape[1])


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


@GROUP.works("`cache.reset()` of a cache that DivPrune shortened in every layer, then another prompt in it")
def reset_encoder_stage() -> str:
    tiny.needs(5, 18, "a cache that was reset keeps its length")
    model, cache = bench.model(), DynamicCache()
    with prune(model, "divprune", retention=0.5) as trace:
        bench.forward(model, bench.sample("small"), past_key_values=cache)
        cache.reset()
        again = bench.forward(model, bench.sample(), past_key_values=cache)
        anew = bench.forward(model, bench.sample())
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
    cache, past = filled(model, bench.sample())
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


@GROUP.works("`cache.batch_select_indices([0])` inside the context: a sample of a batch with unequal pictures leaves")
def selected() -> str:
    model, samples = bench.model(), tiny.unequal_spans("llava")
    with prune(model, bench.METHOD) as trace:
        cache, past = filled(model, tiny.batch(samples))
        cache.batch_select_indices(torch.tensor([0]))
        logits = step(model, cache, 11, past)
    assert bench.near(logits[0], bench.shortened(trace, samples[0], [11], row=0)[1]), "it decoded, and wrongly"
    return f"{bench.dropped(trace)}; the logits are those of the physically shortened sequence."


@GROUP.works("`cache.reorder_cache([1, 0])` inside the context: two samples with unequal pictures change places")
def reordered() -> str:
    model, samples = bench.model(), tiny.unequal_spans("llava")
    with prune(model, bench.METHOD) as trace:
        cache, past = filled(model, tiny.batch(samples))
        cache.reorder_cache(torch.tensor([1, 0]))
        logits = step(model, cache, 11, past, rows=2)
    for b, one in enumerate(samples):
        right = bench.shortened(trace, one, [11], row=b)[1]
        assert bench.near(logits[1 - b], right), "it decoded, and wrongly"
    return f"{bench.dropped(trace)}; the logits are those of the physically shortened sequence."
