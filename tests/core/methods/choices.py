"""What the encoder's methods choose from, found without them, and what is true of each of them inside a model.

The tower's own eager run gives the patches and what CLS attends to; which visual token is which patch is read from the
features that enter the decoder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.test_overhead import counted, waits_per_stage
from tests.core.methods.test_visionzip import CROP, embedded, looked_at, patch_behind, samples_of
from tests.core.models.test_qwen_tower import look
from trio_core import OptionError, prune
from trio_core.methods.method import Method
from trio_core.trace import Trace

with_cls = pytest.mark.parametrize("family", ["llava", "llava_next"])
families = pytest.mark.parametrize("family", ["llava", "llava_next", "qwen2_5_vl"])


@dataclass(frozen=True)
class Seen:
    """One sample. hidden: [C, M, D] patches. attention: [C, M], summed over heads. heads: how many. projected:
    [C, M, width]. crops: crop → patch → number of the visual token."""

    hidden: Tensor
    attention: Tensor
    heads: int
    projected: Tensor
    crops: dict[int, dict[int, int]]


@cache
def _seen(family: str, index: int) -> Seen:
    model, one = tiny.model(family), samples_of(family)[index]
    if family.startswith("qwen"):  # whose tower has its own tests, and projects itself
        encoder = look(model, one)
        patches = {place: number for number, place in enumerate(encoder.places[0].tolist())}
        hidden, weights = encoder.hidden.double(), encoder.attention.double()
        return Seen(hidden, weights.sum(dim=1), weights.shape[1], hidden, {0: patches})
    hidden, attention, _, projected = looked_at(model, one)
    crops: dict[int, dict[int, int]] = {}
    for number, place in enumerate(patch_behind(embedded(model, one), projected)):
        if place >= 0:
            crops.setdefault(place // CROP, {})[place % CROP] = number
    heads = model.config.vision_config.num_attention_heads
    return Seen(hidden[:, 1:].double(), attention.double(), heads, projected.double(), crops)


def seen(family: str, index: int) -> Seen:
    """Of the small or the large of `samples_of`."""
    return _seen(family, index)


def due(crops: dict[int, dict[int, int]], budget: int) -> dict[int, int]:
    """What each crop is to keep: one to each in turn while it has any."""
    shares = dict.fromkeys(crops, 0)
    while sum(shares.values()) < budget:
        for crop, there in crops.items():
            if shares[crop] < len(there) and sum(shares.values()) < budget:
                shares[crop] += 1
    return shares


def holds_in(family: str, method: Method, expected: Callable[[Seen, int, dict[str, Tensor]], list[int]]) -> None:
    """The first stage keeps in a batch padded at either side what `expected` says of each sample alone.

    expected: (what is seen of it, its budget, the sample) → numbers of the visual tokens that stay, in any order.
    """
    model, samples = tiny.model(family), samples_of(family)
    for side in ("left", "right"):
        trace = prefill(model, tiny.batch(samples, side), method)
        for b, one in enumerate(samples):
            budget = trace.schedules[b].budgets[0]
            assert trace.stages[0].layer == 0
            assert trace.stages[0].kept[b].tolist() == sorted(expected(seen(family, b), budget, one))
    for b, one in enumerate(samples):
        alone = prefill(model, one, method)
        for stage, together in zip(alone.stages, trace.stages, strict=True):
            assert torch.equal(stage.kept[0], together.kept[b])


def prefill(model: PreTrainedModel, inputs: dict[str, Tensor], method: Method) -> Trace:
    """The trace of one prefill."""
    with torch.inference_mode(), prune(model, method) as trace:
        model(**inputs, use_cache=False)
    return trace


def generates(family: str, method: Method) -> None:
    """A padded batch goes on as each of its samples does alone, whose first new token is the prefill's best."""
    model, samples = tiny.model(family), samples_of(family)
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    with torch.no_grad(), prune(model, method):
        together = model.generate(**tiny.batch(samples), **asked)[:, -4:]
        for b, one in enumerate(samples):
            assert torch.equal(model.generate(**one, **asked)[0, -4:], together[b])
            assert model(**one).logits[0, -1].argmax() == together[b, 0]


def is_dense_when_all_stay(family: str, method: Method) -> None:
    """At retention 1 the logits are the dense model's, bit by bit; in a batch a small picture may keep all."""
    assert method.retention == 1
    model, inputs = tiny.model(family), tiny.batch(samples_of(family))
    with torch.no_grad():
        dense = model(**inputs).logits
        with prune(model, method):
            assert torch.equal(model(**inputs).logits, dense)
        small = len(tiny.visual_rows(samples_of(family)[0]))
        layers = method.default_layers(tiny.NUM_LAYERS)
        some = type(method)(budgets=(small,) * len(layers), layers=layers)
        with prune(model, some) as trace:
            model(**inputs)
    assert trace.stages[0].kept[0].tolist() == list(range(small))
    assert len(trace.stages[0].kept[1]) == small < trace.schedules[1].visual_tokens


def refuses_newlines(method: Callable[..., Method]) -> None:
    """LLaVA-NeXT's large toy has 80 patches and 8 newlines."""
    one = samples_of("llava_next")[1]
    for budget in (81, 87):
        with (
            pytest.raises(
                OptionError, match=rf"^budget {budget}: newlines .* at most 80 of 88 visual .*; lower"
            ) as caught,
            torch.no_grad(),
            prune(tiny.model("llava_next"), method(budgets=(budget,), layers=(0,))),
        ):
            tiny.model("llava_next")(**one)
        assert "\n" not in str(caught.value)
    trace = prefill(tiny.model("llava_next"), one, method(budgets=(80,), layers=(0,)))
    numbers = [number for there in seen("llava_next", 1).crops.values() for number in there.values()]
    assert trace.stages[0].kept[0].tolist() == sorted(numbers)


def costs_what_it_says(method: Method, rel: float, by_any_tower: bool = True) -> None:
    """Exactly with whole crops; with tiles, cut to fit, as nearly as their number can be read from the tokens."""
    for size in ("small", "large"):
        for family in ("llava", "qwen2_5_vl") if by_any_tower else ("llava",):
            for counts, declared in counted(family, tiny.sample(family, size), method):
                assert counts == declared > 0
        for counts, declared in counted("llava_next", tiny.sample("llava_next", size), method):
            assert counts == pytest.approx(declared, rel=rel)


def waits_as_often_for_many(method: Callable[..., Method], waits: int) -> None:
    """The host, for 64 tokens and for 576."""
    for side, retention in ((8, 0.5), (24, 0.5), (24, 0.9)):
        assert set(waits_per_stage(side, method(retention=retention))) == {waits}
