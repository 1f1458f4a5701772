"""Towers in LLaVA that are not CLIP's, by their own eager run."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.core import tiny, unknown
from tests.core.methods import towers
from tests.core.models.test_families import EARLY, check
from trio_core import UnsupportedModel, prune
from trio_core.methods.downsample import Downsample
from trio_core.methods.prumerge import PruMerge
from trio_core.methods.visionzip import VisionZip
from trio_core.models import adapter_for, toy

KINDS = {"dinov2": 0, "dinov2_with_registers": 3, "vit": 0, "siglip_vision_model": 0}
"""The kinds that are read, and their registers."""


def llava(kind: str, registers: int = 0) -> PreTrainedModel:
    """LLaVA-1.5 with another tower. SigLIP has no CLS token."""
    vision = {**toy.VISION, "model_type": kind} | ({"num_register_tokens": registers} if registers else {})
    strategy = "full" if kind in ("siglip_vision_model", "ijepa") else "default"
    return unknown.made("Llava", vision=vision, kernel="eager", vision_feature_select_strategy=strategy)


def sample(registers: int, seed: int = 0, pictures: int = 1) -> dict[str, Tensor]:
    """Words and pictures of 16 patches, each behind its registers."""
    random = toy.Random(seed)
    ids = torch.tensor([[*random.words(3), *[tiny.IMAGE] * (pictures * (16 + registers)), *random.words(9)]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": random.pixels(pictures, 3, 16, 16),
    }


@pytest.mark.parametrize(("kind", "registers"), KINDS.items())
def test_the_tower_is_read_as_it_ran(kind, registers):
    model = llava(kind, registers)
    samples = [sample(registers, seed=1, pictures=2), sample(registers)]
    encoder = towers.look(model, samples[0])
    hidden, weights, heard = towers.tower_run(model, samples[0])
    has_cls = kind != "siglip_vision_model"
    first = int(has_cls) + registers
    assert torch.equal(encoder.hidden, hidden[:, first:]) and encoder.grid == (4, 4)
    expected = weights[:, :, 0, first:] if has_cls else weights.mean(dim=2)
    assert torch.allclose(encoder.attention, expected, atol=1e-6)
    assert torch.equal(encoder.keys.flatten(2).double(), heard["keys"][:, first:])
    places = torch.arange(32).view(2, 16)
    in_order = torch.cat([torch.full((2, registers), -1), places], dim=1).flatten()
    assert torch.equal(encoder.places[0], in_order)
    patches = encoder.by_token(0, encoder.hidden)[in_order >= 0]
    assert torch.allclose(encoder.project(patches), towers.embedded(model, samples[0])[in_order >= 0], atol=1e-5)
    if has_cls:
        assert encoder.cls is not None and encoder.last is not None
        assert torch.equal(encoder.cls, hidden[:, 0])
        (attention, keys), width = encoder.last, hidden.shape[-1]
        maps = heard["last_query"][:, :1] @ heard["last_keys"].transpose(1, 2) / width**0.5
        assert torch.allclose(attention.double(), maps.softmax(dim=-1)[:, 0, first:], atol=1e-6)
        assert torch.equal(keys.double(), heard["last_keys"][:, first:])
    for method in (
        VisionZip(retention=0.4),
        Downsample(retention=0.4),
        *([PruMerge(retention=0.4)] if has_cls else []),
    ):
        tiny.prefill(model, samples[::-1], method)
    check("llava", model, samples[::-1], EARLY)


@pytest.mark.parametrize(("kind", "registers"), [("dinov3_vit", 3), ("ijepa", 0)])
def test_a_tower_that_is_not_read_runs_the_control(kind, registers):
    model = llava(kind, registers)
    with tiny.refused(UnsupportedModel, f"a tower of the kind '{kind}', which we do not know how to read"):
        adapter_for(model).tower()
    one = sample(registers, pictures=2)
    embedded = towers.embedded(model, one).unflatten(0, (2, -1))[:, registers:]
    with torch.no_grad(), towers.listening(model) as calls, prune(model, "downsample", budgets=(8,), layers=(0,)):
        model(**one)
    means = embedded.unflatten(1, (2, 2, 2, 2)).mean(dim=(2, 4)).flatten(0, 2)
    assert torch.allclose(calls[0][0][0][0, 3:11], means, atol=1e-6)
