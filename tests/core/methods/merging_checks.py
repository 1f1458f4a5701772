"""Checks of an encoder method that merges patches, inside a model, against a plain form of its rule.

The plain form is for one crop of the tower's own eager run. It takes the crop's patches and its share of the budget,
and returns what stands at which patch. Checked is what the decoder receives, and what it generates from that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.methods.encoder_checks import crop_budgets
from tests.core.methods.test_visionzip import embedded, patch_behind
from tests.core.models.test_families import extended, listening, shortened, stages_of
from trio_core import OptionError, prune
from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.models.encoder import Encoder

FAMILIES = ("llava", "llava_next")


@dataclass(frozen=True)
class Crop:
    """One crop by the tower's own run, in float64.

    hidden: [M, D], the patches as the projector reads them.
    keys: [M, E], of that layer, averaged over heads.
    attention: [M], what the CLS token pays to each patch in the last layer, all heads as one.
    last_keys: [M, D], of the last layer.
    """

    hidden: Tensor
    keys: Tensor
    attention: Tensor
    last_keys: Tensor


Rule = Callable[[Crop, list[int], int], dict[int, Tensor]]
"""(crop, its patches that are visual tokens, ascending, budget) → patch → the feature [D] that stands there."""


@torch.no_grad()
def looked_at(model: PreTrainedModel, one: dict[str, Tensor]) -> tuple[list[Crop], Tensor]:
    """The crops of a sample, and [C, M, width] their patches projected."""
    tower = model.get_submodule("model.vision_tower")
    index = model.config.vision_feature_layer
    layers: Any = tower.get_submodule("encoder.layers")
    heard: dict[str, Tensor] = {}
    read, last = layers[index if index < 0 else index - 1].self_attn, layers[-1].self_attn
    parts = {"keys": read.k_proj, "last_query": last.q_proj, "last_keys": last.k_proj}
    handles = [
        module.register_forward_hook(lambda _module, _args, out, name=name: heard.update({name: out.double()}))
        for name, module in parts.items()
    ]
    try:
        hidden = tower(one["pixel_values"].flatten(0, -4), output_hidden_states=True).hidden_states[index]
    finally:
        for handle in handles:
            handle.remove()
    maps = (heard["last_query"] @ heard["last_keys"].transpose(1, 2) / hidden.shape[-1] ** 0.5).softmax(dim=-1)
    keys = heard["keys"][:, 1:].unflatten(-1, (read.num_heads, -1)).mean(dim=2)
    crops = [
        Crop(*parts)
        for parts in zip(hidden[:, 1:].double(), keys, maps[:, 0, 1:], heard["last_keys"][:, 1:], strict=True)
    ]
    return crops, model.get_submodule("model.multi_modal_projector")(hidden[:, 1:])


@torch.no_grad()
def expected_tokens(model: PreTrainedModel, one: dict[str, Tensor], budget: int, rule: Rule) -> dict[int, Tensor]:
    """What a sample's visual tokens become: number of the token → its projected feature."""
    crops, projected = looked_at(model, one)
    places, patches = patch_behind(embedded(model, one), projected), projected.shape[1]
    numbers_of: dict[int, dict[int, int]] = {}  # crop → patch → number of the token
    for number, place in enumerate(places):
        if place >= 0:
            numbers_of.setdefault(place // patches, {})[place % patches] = number
    budgets = crop_budgets(numbers_of, budget)
    tokens: dict[int, Tensor] = {}
    for crop, numbers in numbers_of.items():
        if budgets[crop]:
            for patch, feature in rule(crops[crop], sorted(numbers), budgets[crop]).items():
                tokens[numbers[patch]] = model.get_submodule("model.multi_modal_projector")(feature.float())
    assert len(tokens) == budget
    return dict(sorted(tokens.items()))


def samples_of(family: str) -> list[dict[str, Tensor]]:
    """A small picture, padded at its left, and a large one: two pictures or four tiles un-padded."""
    return [tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)]


def check(model: PreTrainedModel, samples: list[dict[str, Tensor]], method: Method, rule: Rule) -> None:
    """Each sample's kept numbers are the plain form's, and so is what enters the first layer there; text stays."""
    inputs = tiny.batch(samples)
    with torch.inference_mode(), prune(model, method) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    (stage,), entered = trace.stages, calls[0][0][0]
    for b, one in enumerate(samples):
        expected = expected_tokens(model, one, trace.schedules[b].budgets[0], rule)
        assert stage.kept[b].tolist() == list(expected)
        with torch.no_grad(), listening(model) as calls:
            model(**one, use_cache=False)
        dense = calls[0][0][0][0].clone()
        dense[tiny.visual_rows(one)[list(expected)]] = torch.stack([*expected.values()])
        left = stages_of(trace, one, b, len(dense))[0].sort().values
        assert torch.allclose(entered[b, -len(left) :], dense[left], rtol=1e-4, atol=1e-5)


def check_generation(family: str, method: Method, rule: Rule) -> None:
    """Each new token's logits are those of the model's own layers on the merged prompt with the new ones behind it."""
    model, samples = tiny.model(family), samples_of(family)
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "suppress_tokens": [tiny.IMAGE]}
    with prune(model, method) as trace:
        output = cast(Any, model).generate(
            **tiny.batch(samples), **asked, return_dict_in_generate=True, output_logits=True
        )
    for b, one in enumerate(samples):
        longer = extended(family, one, output.sequences[b, -4:-1].tolist())
        left = stages_of(trace, one, b, longer["input_ids"].shape[1])
        merged = expected_tokens(model, one, trace.schedules[b].budgets[0], rule)

        def exchanged(_layer: Any, args: Any, one: Any = one, merged: Any = merged) -> Any:
            hidden = args[0].clone()
            hidden[0, tiny.visual_rows(one)[list(merged)]] = torch.stack([*merged.values()])
            return (hidden, *args[1:])

        handle = adapter_for(model).layers[0].register_forward_pre_hook(exchanged)
        try:
            _, _, logits = shortened(model, longer, left, compact=method.positions == "compact")
        finally:
            handle.remove()
        ours = torch.stack([step[b] for step in output.logits])
        assert torch.allclose(ours, logits[-4:], rtol=1e-4, atol=1e-4)


def check_ends(family: str, cls: type[Method]) -> None:
    """Full retention is the dense model, and a picture that keeps all is left alone beside one that does not; newlines
    and broken features are refused."""
    model, (small, large) = tiny.model(family), samples_of(family)
    inputs, budget = tiny.batch([small, large]), len(tiny.visual_rows(small))
    with torch.no_grad():
        with listening(model) as calls:
            dense = model(**inputs, use_cache=False).logits
        before = calls[0][0][0][0, -small["input_ids"].shape[1] :]
        with prune(model, cls(retention=1.0)):
            assert torch.equal(model(**inputs, use_cache=False).logits, dense)
        with prune(model, cls(budgets=(budget,), layers=(0,))) as trace, listening(model) as calls:
            model(**inputs, use_cache=False)
        assert trace.stages[0].kept[0].tolist() == list(range(budget)) and len(trace.stages[0].kept[1]) == budget
        assert torch.equal(calls[0][0][0][0, -len(before) :], before)
        with (
            prune(model, cls(retention=0.4)),
            pytest.raises(OptionError, match=r"NaN or infinity: the encoder's output is broken") as caught,
        ):
            model(**{**large, "pixel_values": large["pixel_values"] * torch.nan})
        assert "\n" not in str(caught.value)
        if family == "llava_next":
            with (
                prune(model, cls(retention=0.95)),
                pytest.raises(OptionError, match=r"budget 84: newlines .* at most 80 of 88") as caught,
            ):
                model(**large)
            assert "\n" not in str(caught.value)


def check_alone(family: str, cls: type[Method]) -> None:
    """A sample in a padded batch, on either side, is the sample alone."""
    model, samples = tiny.model(family), samples_of(family)
    with torch.no_grad(), prune(model, cls(retention=0.3)) as trace:
        alone = []
        for one in samples:
            logits = model(**one).logits[0, -1]
            alone.append((trace.stages[0].kept[0], logits))
        for side in ("left", "right"):
            logits = model(**tiny.batch(samples, side)).logits
            for b, (kept, wanted) in enumerate(alone):
                assert torch.equal(trace.stages[0].kept[b], kept)
                assert (logits[b, trace.places[b][-1]] - wanted).abs().max() < 1e-4


@torch.no_grad()
def through_qwen(method: Method, one: dict[str, Tensor]) -> tuple[list[int], Tensor, Encoder]:
    """The numbers kept, [K, D] what enters the decoder there, and what the tower saw."""
    model = tiny.model("qwen2_5_vl")
    tower, count = adapter_for(model).tower(), len(tiny.visual_rows(one))
    handles = tower.listen()
    try:
        model(**one, use_cache=False)
        encoder = tower.collect([count])
    finally:
        for handle in handles:
            handle.remove()
    with prune(model, method) as trace, listening(model) as calls:
        model(**one, use_cache=False)
    first = int(tiny.visual_rows(one)[0])
    kept = trace.stages[0].kept[0].tolist()
    return kept, calls[0][0][0][0, first : first + len(kept)], encoder
