"""VisionZip against a plain form over the tower's own eager maps, and what the decoder then really receives."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.engine.test_leaves_no_trace import same, snapshot
from tests.core.models.test_families import extended, listening, shortened, stages_of
from trio_core import OptionError, UnsupportedInput, UnsupportedModel, prune
from trio_core.methods.view import Picture, Signal, View
from trio_core.methods.visionzip import VisionZip, _labels
from trio_core.models import adapter_for, toy
from trio_core.models.adapter import families
from trio_core.models.encoder import Encoder
from trio_core.rules.schedule import Schedule, shares

CROP = 16
"""Patches of a toy crop."""
WITH_CLS = ("llava", "llava_next")
WITHOUT = ("qwen2_vl", "qwen2_5_vl")
"""Whose towers have no CLS token, and are read: see `test_qwen_tower.py`."""
every_family = pytest.mark.parametrize("family", WITH_CLS)


# --- worked by hand --------------------------------------------------------------------------------------------------


def crop_of_eight(budget: int, heads: int = 1) -> View:
    """The card's example: attention and keys as there, hidden states that are the patch's number, the CLS token's 100.

    heads: that share the attention and the keys between them, in parts of their own for each patch.
    """
    attention = torch.tensor([0.1, 0.9, 0.2, 0.8, 0.3, 0.05, 0.15, 0.25])
    keys = torch.tensor([(1, 0), (5, 5), (1, 0.1), (5, 5), (0, 1), (0.2, 1), (1, 0), (0.1, 1)])
    hidden = torch.cat([torch.tensor([100.0]), torch.arange(8.0)])[None, :, None]
    parts = torch.rand(heads, 8, generator=torch.Generator().manual_seed(1))
    parts = parts / parts.sum(dim=0)
    encoder = Encoder(
        hidden=hidden[:, 1:],
        cls=hidden[:, 0],
        attend=lambda: (parts * attention)[None],
        keys=(parts.T[..., None] * keys[:, None] * heads)[None],
        grid=(2, 4),
        places=(torch.arange(8),),
        project=lambda patches: torch.cat([patches, -patches], dim=-1),
    )
    picture = Picture(torch.arange(2, 10), torch.arange(8), budget, 2, Schedule((0,), (budget,), 8, 4))
    valid = torch.ones(1, 12, dtype=torch.bool)
    return View(0, torch.zeros(1, 12, 2), valid, False, (picture,), {Signal.ENCODER: encoder})


@pytest.mark.parametrize("heads", [1, 3])
def test_the_rule_by_hand(heads):
    """Of five tokens: the CLS token, the two most attended patches, and two merged ones; projected at the end."""
    selection = VisionZip(retention=0.5, contextual_share=2 / 5).select(crop_of_eight(5, heads))
    # 0 and 5 are targets and merge to 4 and 10.5. 1 and 3 are dominant. The CLS token takes the place of 2, the first
    # patch that leaves.
    assert selection.kept[0].tolist() == [0, 1, 2, 3, 5]
    assert selection.features[0].tolist() == [[4, -4], [1, -1], [100, -100], [3, -3], [10.5, -10.5]]


def test_compact_positions_have_the_released_order():
    """The released order is: the CLS token, the dominant patches, the merged ones."""
    method = VisionZip(retention=0.5, contextual_share=2 / 5, positions="compact")
    selection = method.select(crop_of_eight(5))
    assert selection.kept[0].tolist() == [0, 1, 2, 3, 5]
    assert selection.features[0][:, 0].tolist() == [100, 1, 3, 4, 10.5]


@pytest.mark.parametrize("budget", range(1, 8))
@pytest.mark.parametrize("share", [0.0, 10 / 64, 0.4, 0.9])
def test_every_place_holds_its_own_patch_or_what_merged_into_it(budget, share):
    """Patch i has a one in column i alone, so that a feature shows what is in it. The CLS token has column 8."""
    view = crop_of_eight(budget)
    encoder = replace(
        view.encoder, hidden=torch.eye(9)[None, :8], cls=torch.eye(9)[None, 8], project=lambda patches: patches
    )
    view = replace(view, hidden=torch.zeros(1, 12, 9), signals={Signal.ENCODER: encoder})
    selection = VisionZip(retention=0.5, contextual_share=share).select(view)
    kept, features = selection.kept[0].tolist(), selection.features[0]
    (cls,) = [place for place, feature in zip(kept, features, strict=True) if feature[8] == 1]
    assert features[kept.index(cls)].sum() == 1  # nothing is merged into the CLS token
    for place, feature in zip(kept, features, strict=True):
        assert place == cls or feature[place] == 1
        assert not feature[[other for other in kept if other not in (place, cls)]].any()


@pytest.mark.parametrize(
    ("budget", "share", "kept", "features"),
    [
        (1, 10 / 64, [0], [100]),  # the CLS token alone
        (1, 0.9, [0], [100]),
        (2, 0.9, [0, 1], [0 + (1 + 2 + 3 + 4 + 5 + 6 + 7) / 7, 100]),
        (3, 0.0, [0, 1, 3], [100, 1, 3]),
        (4, 0.5, [0, 1, 2, 4], [0 + (2 + 3 + 6) / 3, 1, 100, 4 + (5 + 7) / 2]),
    ],
)
def test_few_tokens_by_hand(budget, share, kept, features):
    selection = VisionZip(retention=0.5, contextual_share=share).select(crop_of_eight(budget))
    assert selection.kept[0].tolist() == kept
    assert selection.features[0][:, 0].tolist() == pytest.approx(features)


@pytest.mark.parametrize(("budget", "merged"), [(192, 30), (128, 20), (64, 10), (32, 5)])
def test_published_budgets(budget, merged):
    assert VisionZip(retention=0.5)._merges(budget) == merged


def test_crops_share_equally_but_for_what_a_small_one_cannot_take():
    assert shares(320, [576] * 5) == [64] * 5
    assert shares(322, [576] * 5) == [65, 65, 64, 64, 64]
    assert shares(20, [16, 2, 16]) == [9, 2, 9]
    assert shares(34, [16, 2, 16]) == [16, 2, 16]
    assert shares(2, [16, 16, 16]) == [1, 1, 0]


# --- the plain form inside the model ---------------------------------------------------------------------------------


@torch.no_grad()
def looked_at(model: PreTrainedModel, one: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each crop that is there, by the tower's own eager run at the layer that the projector reads: [C, 1 + M, D]
    hidden states, [C, M] what CLS attends to, summed over heads, [C, M, E] keys averaged over heads; and [C, M, width]
    the patches projected."""
    tower = model.get_submodule("model.vision_tower")
    pixels = one["pixel_values"].flatten(0, -4)
    index = model.config.vision_feature_layer
    layers: Any = tower.get_submodule("encoder.layers")
    ours = layers[index if index < 0 else index - 1]
    keys: list[Tensor] = []
    handle = ours.self_attn.k_proj.register_forward_hook(lambda _module, _args, output: keys.append(output))
    try:
        seen = tower(pixels, output_hidden_states=True, output_attentions=True)
    finally:
        handle.remove()
    hidden = seen.hidden_states[index]
    attention = seen.attentions[index if index < 0 else index - 1][:, :, 0, 1:].sum(dim=1)
    heads = keys[0][:, 1:].unflatten(-1, (ours.self_attn.num_heads, -1)).mean(dim=2)
    return hidden, attention, heads, model.get_submodule("model.multi_modal_projector")(hidden[:, 1:])


@torch.no_grad()
def embedded(model: PreTrainedModel, one: dict[str, Tensor]) -> Tensor:
    """[V0, D] what enters the decoder at a sample's visual tokens in the dense model."""
    with listening(model) as calls:
        model(**one, use_cache=False)
    return calls[0][0][0][0, tiny.visual_rows(one)]


def patch_behind(rows: Tensor, projected: Tensor) -> list[int]:
    """For each visual token, the patch that it is, as crop · M + patch, found by its features alone; −1 for none."""
    distance = torch.cdist(rows, projected.flatten(0, 1), compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distance.min(dim=1)
    assert (distance < 1e-5).sum(dim=1).max() <= 1  # every patch its own
    return torch.where(nearest.values < 1e-5, nearest.indices, -1).tolist()


def expected_tokens(
    model: PreTrainedModel, one: dict[str, Tensor], budget: int, method: VisionZip
) -> dict[int, Tensor]:
    """The rule as the card states it, a crop at a time: by the number of the visual token, what it is from now on."""
    hidden, attention, keys, projected = looked_at(model, one)
    places = patch_behind(embedded(model, one), projected)
    crops: dict[int, dict[int, int]] = {}  # crop → patch → number of the visual token
    for number, place in enumerate(places):
        if place >= 0:
            crops.setdefault(place // CROP, {})[place % CROP] = number
    due = dict.fromkeys(crops, 0)
    while sum(due.values()) < budget:  # one to each in turn
        for crop, there in crops.items():
            if due[crop] < len(there) and sum(due.values()) < budget:
                due[crop] += 1
    tokens: dict[int, Tensor] = {}
    for crop, there in crops.items():
        if not due[crop]:
            continue
        merges = min(round(method.contextual_share * due[crop]), due[crop] - 1)
        ranked = sorted(there, key=lambda patch, crop=crop: -float(attention[crop, patch]))
        dominant = sorted(ranked[: due[crop] - merges - 1])
        left = [patch for patch in sorted(there) if patch not in dominant]
        stride = len(left) // merges if merges else 1
        targets = [left[i * stride] for i in range(merges)]
        joined: dict[int, list[int]] = {target: [] for target in targets}
        for patch in left:
            if merges and patch not in targets:
                likeness = [torch.cosine_similarity(keys[crop, patch], keys[crop, t], dim=0) for t in targets]
                joined[targets[int(torch.stack(likeness).argmax())]].append(patch)
        state = hidden[crop, 1:]
        merged = [
            state[t] + (state[joined[t]].mean(dim=0) if joined[t] else torch.zeros_like(state[t])) for t in targets
        ]
        leaves = next(patch for patch in left if patch not in targets)
        places = [leaves, *dominant, *targets]
        if method.positions == "compact":  # the released order over the places that are kept
            places.sort()
        for patch, feature in zip(places, [hidden[crop, 0], *state[dominant], *merged], strict=True):
            tokens[there[patch]] = model.get_submodule("model.multi_modal_projector")(feature)
    return dict(sorted(tokens.items()))


def check(model: PreTrainedModel, samples: list[dict[str, Tensor]], method: VisionZip) -> list[list[int]]:
    """Each sample's kept numbers are the plain form's, and so is what enters the first layer there; text stays."""
    inputs = tiny.batch(samples)
    with torch.inference_mode(), prune(model, method) as trace, listening(model) as calls:
        model(**inputs, use_cache=False)
    (stage,), entered = trace.stages, calls[0][0][0]
    for b, one in enumerate(samples):
        with torch.no_grad():
            expected = expected_tokens(model, one, trace.schedules[b].budgets[0], method)
            assert stage.kept[b].tolist() == list(expected)
            dense, visual = whole(model, one), tiny.visual_rows(one)
        dense[visual[list(expected)]] = torch.stack([*expected.values()])
        left = stages_of(trace, one, b, len(dense))[0].sort().values
        length = len(left)
        ours = entered[b, -length:] if inputs["attention_mask"][b, -1] else entered[b, :length]
        assert torch.allclose(ours, dense[left], rtol=1e-4, atol=1e-5)
    return [kept.tolist() for kept in stage.kept]


def whole(model: PreTrainedModel, one: dict[str, Tensor]) -> Tensor:
    """[S, D] what enters the dense model's first layer."""
    with listening(model) as calls:
        model(**one, use_cache=False)
    return calls[0][0][0][0].clone()


def samples_of(family: str) -> list[dict[str, Tensor]]:
    """A small picture, padded at its left, and a large one: two pictures or four tiles un-padded."""
    return [tiny.sample(family, "small", seed=1), tiny.sample(family, after=12)]


@pytest.mark.parametrize("share", [0.0, 10 / 64, 0.5, 0.95])
@pytest.mark.parametrize("retention", [0.1, 0.25, 0.6])
@every_family
def test_it_is_the_plain_form_and_the_decoder_receives_it(family, retention, share):
    check(tiny.model(family), samples_of(family), VisionZip(retention=retention, contextual_share=share))


def wide() -> dict[str, Tensor]:
    """LLaVA-NeXT's sample of two tiles side by side, their rows joined, of whose eight rows padding takes four."""
    generator = torch.Generator().manual_seed(3)
    ids = [5, 6, *[tiny.IMAGE] * (CROP + 2 * (8 + 1)), 7, 8, 9]
    return {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        "pixel_values": torch.randn(1, 3, 3, 16, 16, generator=generator),
        "image_sizes": torch.tensor([[16, 64]]),
    }


def two_pictures() -> dict[str, Tensor]:
    """LLaVA-NeXT's sample with two pictures of different sizes and a word between them."""
    first, second = tiny.sample("llava_next", "small"), tiny.sample("llava_next", "large", seed=2)
    together = tiny.batch([first, second])
    ids = torch.cat([first["input_ids"], second["input_ids"]], dim=1)
    return {**together, "input_ids": ids, "attention_mask": torch.ones_like(ids)}


def there(one: dict[str, Tensor], model: PreTrainedModel) -> list[int]:
    return patch_behind(embedded(model, one), looked_at(model, one)[3])


@pytest.mark.parametrize("one", [wide(), tiny.sample("llava_next"), tiny.sample("llava_next", "small")])
def test_where_tiles_are_packed(one):
    """The places that the tower is heard to pack are those that the features show, newlines between the rows."""
    model = tiny.model("llava_next")
    tower = adapter_for(model).tower()
    handles = tower.listen()
    try:
        expected = there(one, model)
        with torch.no_grad():
            model(**one, use_cache=False)
        crops = one["pixel_values"].shape[1]
        assert tower.places(crops, CROP).tolist() == expected
        assert tower.collect([len(expected)]).places[0].tolist() == expected
    finally:
        for handle in handles:
            handle.remove()
    assert expected[:CROP] == list(range(CROP))
    columns = expected.index(-1) - CROP
    assert expected[CROP + columns :: columns + 1] == [-1] * ((len(expected) - CROP) // (columns + 1))
    assert expected.count(-1) == (len(expected) - CROP) // (columns + 1) > 1


def test_tiles_of_which_little_is_left():
    """Two rows of each of two tiles: they take less than their share, and the base crop the rest."""
    model, one = tiny.model("llava_next"), wide()
    (kept,) = check(model, [one], VisionZip(retention=0.9))
    places = torch.tensor(there(one, model))[kept]
    assert torch.bincount(places // CROP).tolist() == [15, 8, 8]


@pytest.mark.parametrize("retention", [0.1, 0.4])
def test_several_pictures_in_a_sample_and_others_beside_it(retention):
    method = VisionZip(retention=retention)
    check(tiny.model("llava_next"), [two_pictures()], method)
    # LLaVA-1.5's large sample is two pictures with a word between them.
    three = [tiny.sample("llava"), tiny.sample("llava", "small"), tiny.sample("llava", seed=4)]
    check(tiny.model("llava"), three, method)


@pytest.mark.parametrize("layer", [-3, -1, 1, 3])
@every_family
def test_the_tower_is_read_where_the_projector_reads_it(family, layer):
    """Counted from either end; the tower has three layers."""
    config = families[tiny.NAMES[family]].toy_config()
    config.vision_feature_layer, config.vision_config.num_hidden_layers = layer, 3
    model = toy.build(type(tiny.model(family)), config, "sdpa", seed=0)
    check(model, samples_of(family), VisionZip(retention=0.4))


def test_the_towers_kernel_is_its_own():
    """Under sdpa the tower makes no map, and the selection is the same."""
    model = families["LLaVA-1.5"].toy("sdpa", seed=5)
    model.get_submodule("model.vision_tower").set_attn_implementation("sdpa")
    kept = {}
    for kernel in ("sdpa", "eager"):
        model.get_submodule("model.vision_tower").set_attn_implementation(kernel)
        with torch.no_grad(), prune(model, "visionzip", retention=0.4) as trace:
            model(**tiny.sample("llava"))
        kept[kernel] = trace.stages[0].kept[0]
    assert torch.equal(kept["sdpa"], kept["eager"])


# --- generation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["original", "compact"])
@every_family
def test_it_generates_as_from_the_shorter_prompt(family, positions):
    """Each new token's logits are those of the model's own layers on the merged prompt with the new ones behind it."""
    model, samples = tiny.model(family), samples_of(family)
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "suppress_tokens": [tiny.IMAGE]}
    method = VisionZip(retention=0.3, positions=positions)
    with prune(model, method) as trace:
        output = model.generate(**tiny.batch(samples), **asked, return_dict_in_generate=True, output_logits=True)
    for b, one in enumerate(samples):
        longer = extended(family, one, output.sequences[b, -4:-1].tolist())
        left = stages_of(trace, one, b, longer["input_ids"].shape[1])
        merged = expected_tokens(model, one, trace.schedules[b].budgets[0], method)

        def exchanged(_layer: Any, args: Any, one: Any = one, merged: Any = merged) -> Any:
            hidden = args[0].clone()
            if hidden.shape[1] > len(tiny.visual_rows(one)):
                hidden[0, tiny.visual_rows(one)[list(merged)]] = torch.stack([*merged.values()])
            return (hidden, *args[1:])

        handle = adapter_for(model).layers[0].register_forward_pre_hook(exchanged)
        try:
            _, _, logits = shortened(model, longer, left, compact=positions == "compact")
        finally:
            handle.remove()
        ours = torch.stack([step[b] for step in output.logits])
        assert torch.allclose(ours, logits[-4:], rtol=1e-4, atol=1e-4)


# --- what it refuses, and what it leaves -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", [family for family in tiny.FAMILIES if family not in WITH_CLS + WITHOUT])
def test_a_family_whose_tower_we_cannot_read_is_refused_untouched(family):
    model = tiny.model(family)
    before = snapshot(model)
    with (
        pytest.raises(
            UnsupportedModel, match=f"{adapter_for(model).family}: its vision tower has no CLS token"
        ) as caught,
        prune(model, "visionzip", retention=0.5),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert same(before, snapshot(model))
    with prune(model, "grid", retention=0.5):  # nor does the refusal lock it
        pass


@pytest.mark.parametrize(
    ("option", "value"),
    [("vision_feature_layer", [-2, -1]), ("vision_feature_layer", 0), ("vision_feature_select_strategy", "full")],
)
@every_family
def test_a_projector_that_reads_more_or_other_than_a_layers_patches_is_refused(family, option, value):
    config = families[tiny.NAMES[family]].toy_config()
    setattr(config, option, value)
    model = toy.build(type(tiny.model(family)), config, "sdpa", seed=0)
    with pytest.raises(UnsupportedModel, match=f"with .*{option} ") as caught, prune(model, "visionzip", retention=0.5):
        pass
    assert "\n" not in str(caught.value)


def test_another_tower_in_llava_has_its_widths_without_a_cls_token():
    """SigLIP in LLaVA-1.5's class: other methods prune it, and this one says why it does not."""
    from transformers import LlavaConfig, SiglipVisionConfig

    ours = families["LLaVA-1.5"].toy_config()
    vision = SiglipVisionConfig(**toy.VISION, vision_use_head=False)
    config = LlavaConfig(
        vision_config=vision,
        text_config=ours.text_config,
        image_token_index=tiny.IMAGE,
        vision_feature_select_strategy="full",
    )
    model = toy.build(type(tiny.model("llava")), config, "sdpa", seed=0)
    assert adapter_for(model).layer_shape.patches == 0
    with torch.no_grad(), prune(model, "divprune", retention=0.5) as trace:
        model(**tiny.sample("llava"))
    assert len(trace.stages) == 1
    with pytest.raises(UnsupportedModel, match="no CLS token"), prune(model, "visionzip", retention=0.5):
        pass


@every_family
def test_nothing_stays_behind(family):
    """After success, an exception on the way and a prompt without its picture; the packing is the model's own again."""
    model, one = tiny.model(family), tiny.sample(family)
    without = {name: value for name, value in one.items() if name != "pixel_values"}
    broken = {**one, "pixel_values": one["pixel_values"] * torch.nan}
    with torch.no_grad():
        dense = model(**one, output_hidden_states=True).logits  # installs transformers' own hooks
        before = snapshot(model)
        with prune(model, VisionZip(retention=0.4)):
            pruned = model(**one).logits
            with pytest.raises(OptionError, match="hold NaN or infinity") as caught:
                model(**broken)
            assert "\n" not in str(caught.value)
            with pytest.raises(UnsupportedInput, match="pass pixel_values with the prompt") as caught:
                model(**without)
            assert "\n" not in str(caught.value)
            assert tiny.same(model(**one).logits, pruned)
        assert same(before, snapshot(model))
        assert torch.equal(model(**one).logits, dense)


@every_family
def test_a_picture_of_an_earlier_forward_is_not_taken_for_this_one(family):
    """The earlier forward failed after the tower, or selected nothing because all tokens stay."""
    model, one = tiny.model(family), tiny.sample(family)
    without = {name: value for name, value in one.items() if name != "pixel_values"}
    fewer = {**one, "input_ids": one["input_ids"].where(one["input_ids"].cumsum(1) > 3 * tiny.IMAGE, 1)}
    with torch.no_grad(), prune(model, VisionZip(budgets=(7,), layers=(0,))):
        with pytest.raises(ValueError, match=r"[Ii]mage features"):
            model(**fewer)
        with pytest.raises(UnsupportedInput, match="pass pixel_values"):
            model(**without)


def test_newlines_cannot_stay():
    model, one = tiny.model("llava_next"), tiny.sample("llava_next")
    with torch.no_grad():
        with (
            prune(model, VisionZip(retention=0.95)),
            pytest.raises(
                OptionError, match=r"budget 84: newlines .* at most 80 of 88 visual tokens can stay; lower"
            ) as caught,
        ):
            model(**one)
        assert "\n" not in str(caught.value)
        with prune(model, VisionZip(retention=80 / 88)) as trace:
            model(**one)
        assert len(trace.stages[0].kept[0]) == 80
        with prune(model, VisionZip(retention=1.0)):
            full = model(**one).logits
        assert torch.equal(full, model(**one).logits)


@every_family
def test_a_small_picture_that_keeps_all_is_left_alone_beside_a_large_one(family):
    small, large = samples = samples_of(family)
    budget = len(tiny.visual_rows(small))
    assert budget < len(tiny.visual_rows(large))
    model = tiny.model(family)
    with torch.no_grad(), prune(model, VisionZip(budgets=(budget,), layers=(0,))) as trace, listening(model) as calls:
        model(**tiny.batch(samples), use_cache=False)
    assert trace.stages[0].kept[0].tolist() == list(range(budget))
    dense = whole(model, small)
    assert torch.allclose(calls[0][0][0][0, -len(dense) :], dense, rtol=1e-5, atol=1e-6)


# --- where each patch goes -------------------------------------------------------------------------------------------


def test_the_card_s_patches_go_into_their_targets():
    """methods.md, card 6: 1 and 3 are dominant, 0 and 5 are targets. The CLS token takes the place of patch 2."""
    dominant, rest = torch.tensor([1, 3]), torch.tensor([0, 2, 4, 5, 6, 7])
    labels = torch.tensor([-1, 0, 1, -1, 0, 1])
    places = torch.tensor([2, 1, 3, 0, 5])
    found = _labels(8, dominant, rest, labels, torch.tensor([2]))
    assert places[found].tolist() == [0, 1, 2, 3, 5, 5, 0, 5]
    assert places[1:][_labels(8, dominant, rest, labels, None)].tolist() == [0, 1, 0, 3, 5, 5, 0, 5]
    assert _labels(8, dominant, rest, None, None).tolist() == [-1, 0, -1, 1, -1, -1, -1, -1]
