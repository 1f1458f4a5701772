"""Towers of CLIP and SigLIP whose patches the model pools or blends.

Pictures without either are in the tests of the methods, which compare each rule with the tower's own run.
"""

from copy import deepcopy
from itertools import count, islice

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlavaOnevisionForConditionalGeneration, PreTrainedModel

from tests.core import tiny
from tests.core.methods import towers
from trio_core import OptionError, UnsupportedInput, UnsupportedModel
from trio_core.models import adapter_for, toy


def onevision(tower: str) -> PreTrainedModel:
    """LLaVA-OneVision with SigLIP, or with CLIP, whose CLS token it leaves out."""
    if tower == "siglip":
        return tiny.model("llava_onevision")
    config = deepcopy(tiny.model("llava_onevision").config)
    config.vision_config = type(tiny.model("llava").config.vision_config)(**toy.CLIP)
    config.vision_feature_select_strategy = "default"
    torch.manual_seed(0)
    return LlavaOnevisionForConditionalGeneration._from_config(config, attn_implementation="eager").eval()


def pooled(values_CMX: Tensor) -> Tensor:
    """[C, 4, X]: the mean of each 2 × 2 of the 4 × 4 patches, as bilinear interpolation to half the side gives."""
    return F.avg_pool2d(values_CMX.transpose(1, 2).unflatten(-1, (4, 4)), 2).flatten(2).transpose(1, 2)


@pytest.mark.parametrize(
    ("family", "tower"), [("llava_onevision", "siglip"), ("llava_onevision", "clip"), ("llava_next_video", "clip")]
)
def test_a_patch_of_a_video_is_a_pooled_one_and_its_newline_is_none(family, tower):
    """LLaVA-OneVision has a newline behind each video of three frames. LLaVA-NeXT-Video has none."""
    newlines = [-1] if family == "llava_onevision" else []
    model = onevision(tower) if newlines else tiny.model(family)
    samples = tiny.videos(family)
    encoder = towers.look(model, *samples)
    numbers = count()
    for b, one in enumerate(samples):
        visual = towers.embedded(model, one)
        videos = len(visual) // (12 + len(newlines))
        places = [place for _ in range(videos) for place in (*islice(numbers, 12), *newlines)]
        assert encoder.places[b].tolist() == places
        kept = encoder.by_token(b, encoder.hidden)
        assert torch.allclose(kept[encoder.places[b] >= 0], visual[encoder.places[b] >= 0], atol=1e-5)
    _, weights, heard = towers.tower_run(model, samples[0])
    first = int(tower == "clip")
    attention = weights[:, :, 0, 1:] if first else weights.mean(dim=2)
    assert torch.allclose(encoder.attention[:3].transpose(1, 2), pooled(attention.transpose(1, 2)), atol=1e-6)
    assert torch.allclose(encoder.keys[:3].flatten(2).double(), pooled(heard["keys"][:, first:]), atol=1e-5)
    assert encoder.cls is None and encoder.last is None and encoder.grid == (2, 2)


def test_pictures_and_a_video_in_one_batch_are_refused():
    for family in ("llava_onevision", "llava_next_video"):
        both = [tiny.sample(family, "small"), tiny.videos(family)[0]]
        with tiny.refused(UnsupportedInput, "pictures and a video in the prompt: methods that look into this tower"):
            towers.look(tiny.model(family), *both)


def test_frames_that_are_not_averaged_are_refused():
    with tiny.refused(UnsupportedModel, "spatial_pool_mode 'max': .* need 'average'"):
        adapter_for(tiny.variant("llava_next_video", spatial_pool_mode="max")).tower()


def test_a_picture_whose_patches_the_model_blends_is_refused():
    """At most one tile's worth of patches: the model resizes the 8 × 8 patches of four tiles to 4 × 4."""
    model, one = deepcopy(tiny.model("llava_onevision")), tiny.pair("llava_onevision")[1]
    inner: nn.Module = model.get_submodule("model")
    assert inner.config.vision_aspect_ratio == "anyres_max_9"
    inner.config.vision_aspect_ratio = "anyres_max_1"
    ids, image = one["input_ids"], tiny.IMAGE
    first = int((ids[0] == image).nonzero()[0])
    words = ids[0][ids[0] != image]
    shorter = torch.cat([words[:first], torch.full((16 + 4 * 5,), image), words[first:]])[None]
    blended = {**one, "input_ids": shorter, "attention_mask": torch.ones_like(shorter)}
    with tiny.refused(UnsupportedInput, "make the picture smaller"):
        towers.look(model, blended)


@pytest.mark.parametrize("wrong", [{"vision_feature_layer": [-2, -1]}, {"vision_feature_select_strategy": "default"}])
def test_a_tower_that_passes_on_more_or_less_than_its_patches_is_refused(wrong):
    with tiny.refused(UnsupportedModel, "need the patches of one layer, 'full'"):
        adapter_for(tiny.variant("llava_onevision", **wrong)).tower()


def test_a_method_that_needs_a_cls_token_refuses_pooled_frames():
    with tiny.refused(UnsupportedModel, "has no CLS token, or the model pools its patches"):
        tiny.run(onevision("clip"), tiny.videos("llava_onevision")[0], "prumerge", retention=0.5)


def test_newlines_leave_before_the_tokens_of_a_frame():
    """Two videos have 24 tokens in frames and a newline each."""
    model, inputs = tiny.model("llava_onevision"), tiny.videos("llava_onevision")[1]
    for name in ("fastvid", "visionzip"):
        kept = tiny.run(model, inputs, name, budgets=(24,), layers=(0,))[1].stages[0].kept[0]
        assert kept.tolist() == [token for token in range(26) if token not in (12, 25)], name
        with tiny.refused(OptionError, "newline tokens go first, so that at most 24 of 26 visual tokens can stay"):
            tiny.run(model, inputs, name, budgets=(25,), layers=(0,))
