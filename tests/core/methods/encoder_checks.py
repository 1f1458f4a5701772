"""Checks of an encoder method that keeps patches as they are, inside a model, against a plain form of its rule.

The plain form reads the tower's own eager run: its patches, and what the CLS token attends to. Which visual token is
which patch is read from the features that enter the decoder.
"""

from collections.abc import Callable, Mapping, Sized
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
class TowerOutput:
    """One sample by the tower's own run. C crops of M patches.

    hidden: [C, M, D], the patches as the projector reads them.
    attention: [C, M], what the CLS token pays to each patch, summed over heads.
    heads: how many heads.
    projected: [C, M, width of the decoder].
    crops: crop → patch → number of the visual token.
    """

    hidden: Tensor
    attention: Tensor
    heads: int
    projected: Tensor
    crops: dict[int, dict[int, int]]


@cache
def tower_output(family: str, index: int) -> TowerOutput:
    """index: 0 for the small sample of `samples_of`, 1 for the large one."""
    model, one = tiny.model(family), samples_of(family)[index]
    if family.startswith("qwen"):  # its tower projects the patches itself, and has its own tests
        encoder = look(model, one)
        patches = {place: number for number, place in enumerate(encoder.places[0].tolist())}
        hidden, weights = encoder.hidden.double(), encoder.attention.double()
        return TowerOutput(hidden, weights.sum(dim=1), weights.shape[1], hidden, {0: patches})
    hidden, attention, _, projected = looked_at(model, one)
    crops: dict[int, dict[int, int]] = {}
    for number, place in enumerate(patch_behind(embedded(model, one), projected)):
        if place >= 0:
            crops.setdefault(place // CROP, {})[place % CROP] = number
    heads = model.config.vision_config.num_attention_heads
    return TowerOutput(hidden[:, 1:].double(), attention.double(), heads, projected.double(), crops)


def crop_budgets(crops: Mapping[int, Sized], budget: int) -> dict[int, int]:
    """How many tokens each crop keeps. The crops take one in turn while they have any.

    crops: the tokens of each crop.
    """
    shares = dict.fromkeys(crops, 0)
    while sum(shares.values()) < budget:
        for crop, tokens in crops.items():
            if shares[crop] < len(tokens) and sum(shares.values()) < budget:
                shares[crop] += 1
    return shares


def check_selection(
    family: str, method: Method, expected: Callable[[TowerOutput, int, dict[str, Tensor]], list[int]]
) -> None:
    """In a batch padded at either side, the first stage keeps what `expected` says of each sample.

    expected: (the tower's output, the budget, the sample) → the numbers of the tokens that stay, in any order.
    """
    model, samples = tiny.model(family), samples_of(family)
    for side in ("left", "right"):
        trace = prefill(model, tiny.batch(samples, side), method)
        for b, one in enumerate(samples):
            budget = trace.schedules[b].budgets[0]
            assert trace.stages[0].layer == 0
            assert trace.stages[0].kept[b].tolist() == sorted(expected(tower_output(family, b), budget, one))
    for b, one in enumerate(samples):
        alone = prefill(model, one, method)
        for stage, together in zip(alone.stages, trace.stages, strict=True):
            assert torch.equal(stage.kept[0], together.kept[b])


def prefill(model: PreTrainedModel, inputs: dict[str, Tensor], method: Method) -> Trace:
    """The trace of one prefill."""
    with torch.inference_mode(), prune(model, method) as trace:
        model(**inputs, use_cache=False)
    return trace


def check_generation(family: str, method: Method) -> None:
    """In a padded batch each sample generates what it generates alone. Its first token is the prefill's best."""
    model, samples = tiny.model(family), samples_of(family)
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    with torch.no_grad(), prune(model, method):
        together = model.generate(**tiny.batch(samples), **asked)[:, -4:]
        for b, one in enumerate(samples):
            assert torch.equal(model.generate(**one, **asked)[0, -4:], together[b])
            assert model(**one).logits[0, -1].argmax() == together[b, 0]


def check_full_retention(family: str, method: Method) -> None:
    """At retention 1 the logits are the dense model's, bit by bit. Beside a large picture, a small one may keep all."""
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


def check_newlines_refused(method: Callable[..., Method]) -> None:
    """A budget above the 80 patches of LLaVA-NeXT's large toy is refused. It has 8 newlines."""
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
    numbers = [number for crop in tower_output("llava_next", 1).crops.values() for number in crop.values()]
    assert trace.stages[0].kept[0].tolist() == sorted(numbers)


def check_cost(method: Method, rel: float, by_any_tower: bool = True) -> None:
    """The declared MACs are the counted ones: exactly for whole crops, to `rel` for tiles that were cut to fit."""
    for size in ("small", "large"):
        for family in ("llava", "qwen2_5_vl") if by_any_tower else ("llava",):
            for counts, declared in counted(family, tiny.sample(family, size), method):
                assert counts == declared > 0
        for counts, declared in counted("llava_next", tiny.sample("llava_next", size), method):
            assert counts == pytest.approx(declared, rel=rel)


def check_host_waits(method: Callable[..., Method], waits: int) -> None:
    """The host waits as often for 576 tokens as for 64."""
    for side, retention in ((8, 0.5), (24, 0.5), (24, 0.9)):
        assert set(waits_per_stage(side, method(retention=retention))) == {waits}
