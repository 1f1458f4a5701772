"""VisionZip against a plain form over the tower's own eager maps, and what the decoder then really receives."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.engine.test_leaves_no_trace import same, snapshot
from tests.core.methods import towers
from trio_core import UnsupportedModel, prune
from trio_core.methods.view import Signal, View
from trio_core.methods.visionzip import VisionZip
from trio_core.models import adapter_for

# --- worked by hand --------------------------------------------------------------------------------------------------


def crop_of_eight(budget: int) -> View:
    """The card's attention and keys. Hidden states are the patch's number, and the CLS token's is 100."""
    attention = torch.tensor([0.1, 0.9, 0.2, 0.8, 0.3, 0.05, 0.15, 0.25])
    keys = torch.tensor([(1, 0), (5, 5), (1, 0.1), (5, 5), (0, 1), (0.2, 1), (1, 0), (0.1, 1)])
    encoder = tiny.encoder(
        torch.arange(8.0)[:, None],
        attention[None],
        keys[:, None],
        cls=torch.tensor([[100.0]]),
        project=lambda patches: torch.cat([patches, -patches], dim=-1),
    )
    return tiny.view(8, budget, {Signal.ENCODER: encoder})


def test_the_rule_by_hand():
    """Of five tokens: the CLS token, the two most attended patches, and two merged ones; projected at the end."""
    selection = VisionZip(retention=0.5, contextual_share=2 / 5).select(crop_of_eight(5))
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


def test_few_tokens_by_hand():
    for budget, share, kept, features in (
        (1, 10 / 64, [0], [100]),  # the CLS token alone
        (2, 0.9, [0, 1], [0 + (1 + 2 + 3 + 4 + 5 + 6 + 7) / 7, 100]),
        (3, 0.0, [0, 1, 3], [100, 1, 3]),
        (4, 0.5, [0, 1, 2, 4], [0 + (2 + 3 + 6) / 3, 1, 100, 4 + (5 + 7) / 2]),
    ):
        selection = VisionZip(retention=0.5, contextual_share=share).select(crop_of_eight(budget))
        assert selection.kept[0].tolist() == kept
        assert selection.features[0][:, 0].tolist() == pytest.approx(features)


# --- the plain form inside the model ---------------------------------------------------------------------------------


def rule(share: float) -> towers.Rule:
    """The card's rule for one crop. Without a CLS token no place is given to it."""

    def plain(crop: towers.Crop, there: list[int], budget: int) -> dict[int, Tensor]:
        merges = min(round(share * budget), budget - 1)
        ranked = sorted(there, key=lambda patch: -float(crop.attention[patch]))
        dominant = sorted(ranked[: budget - merges - (crop.cls is not None)])
        left = [patch for patch in there if patch not in dominant]
        stride = len(left) // merges if merges else 1
        targets = [left[i * stride] for i in range(merges)]
        joined: dict[int, list[int]] = {target: [] for target in targets}
        for patch in left:
            if merges and patch not in targets:
                likeness = [torch.cosine_similarity(crop.keys[patch], crop.keys[t], dim=0) for t in targets]
                joined[targets[int(torch.stack(likeness).argmax())]].append(patch)
        tokens = {patch: crop.hidden[patch] for patch in [*dominant, *targets]}
        for target, others in joined.items():
            if others:
                tokens[target] = crop.hidden[target] + crop.hidden[others].mean(dim=0)
        if crop.cls is not None:
            tokens[next(patch for patch in left if patch not in targets)] = crop.cls
        return tokens

    return plain


def check(model: PreTrainedModel, samples: list[dict[str, Tensor]], **options: Any) -> None:
    method = VisionZip(**options)
    towers.check_merging(model, samples, method, rule(method.contextual_share))


@towers.families
def test_it_is_the_plain_form_and_the_decoder_receives_it(family):
    for retention, share in ((0.2, 0.0), (0.6, 10 / 64), (0.2, 0.5), (0.6, 0.95)):
        check(tiny.model(family), tiny.pair(family), retention=retention, contextual_share=share)


def test_several_pictures_in_a_sample_and_others_beside_it():
    check(tiny.model("llava_next"), [towers.wide()], retention=0.4)
    check(tiny.model("llava_next"), [towers.two_pictures()], retention=0.1)
    # LLaVA-1.5's large sample is two pictures with a word between them.
    three = [tiny.sample("llava"), tiny.sample("llava", "small"), tiny.sample("llava", seed=4)]
    check(tiny.model("llava"), three, retention=0.4)


@pytest.mark.parametrize("layer", [-1, 1])
@towers.with_cls
def test_the_tower_is_read_where_the_projector_reads_it(family, layer):
    """Counted from either end; the tower has three layers."""
    model = tiny.variant(family, vision={"num_hidden_layers": 3}, vision_feature_layer=layer)
    check(model, tiny.pair(family), retention=0.4)


# --- what it refuses, and what it leaves -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gemma3", "qwen3_vl"])
def test_a_family_whose_tower_we_cannot_read_is_refused_untouched(family):
    model = tiny.model(family)
    before = snapshot(model)
    with (
        tiny.refused(UnsupportedModel, f"{adapter_for(model).family}: its vision tower has no CLS token"),
        prune(model, "visionzip", retention=0.5),
    ):
        pass
    assert same(before, snapshot(model))
    with prune(model, "grid", retention=0.5):  # nor does the refusal lock it
        pass


def test_a_projector_that_reads_more_or_other_than_a_layers_patches_is_refused():
    layer, strategy = "vision_feature_layer", "vision_feature_select_strategy"
    for option, value in ((layer, [-2, -1]), (layer, 0), (strategy, "full")):
        model = tiny.variant("llava", **{option: value})
        with tiny.refused(UnsupportedModel, f"with .*{option} "), prune(model, "visionzip", retention=0.5):
            pass
