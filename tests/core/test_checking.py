"""The self-check, and models of classes that no file knows: tried first, and refused with what is missing or wrong."""

import gc
import weakref

import pytest
import torch
from transformers import (
    CLIPVisionConfig,
    Glm4vConfig,
    Glm4vForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    VipLlavaConfig,
    VipLlavaForConditionalGeneration,
)

from tests.core import tiny
from tests.core.test_families import check, shortened
from trio_core import UnsupportedModel, checking, prune
from trio_core.checking import self_check
from trio_core.models import adapter_for, toy
from trio_core.models.adapter import Adapter, adapters
from trio_core.models.generic import Generic


@pytest.mark.parametrize(("family", "attention"), tiny.KERNELS)
def test_every_family_passes(family, attention):
    seen = self_check(tiny.model(family, attention), prune)
    assert (seen.identical, seen.same_kept, seen.generates, seen.faults) == (True, True, True, ())
    assert seen.difference is not None
    assert 0 < seen.difference < 1e-5


def test_half_precision_passes():
    """Rounding tips a pseudo-label of the first prompt over, and another one is tried."""
    model = adapters["FastVlmForConditionalGeneration"].toy("sdpa").bfloat16()
    assert self_check(model, prune).faults == ()


@pytest.mark.parametrize("family", ["llava", "internvl", "idefics3", "qwen2_5_vl", "qwen3_vl"])
def test_the_generic_adapter_finds_what_the_familys_own_names(family):
    model = tiny.model(family)
    ours, own = Generic(model), adapter_for(model)
    assert ours.decoder is own.decoder
    assert ours.placeholder_ids() == own.placeholder_ids()
    assert ours.multi_axis_positions == own.multi_axis_positions
    assert ours.family == type(model).__name__
    hidden = torch.randn(1, 2, 32)
    assert torch.equal(ours.readout(hidden), own.readout(hidden))


def unknown(cls, config):
    return toy.build(cls, config, "sdpa", seed=0)


def vip_llava():
    config = VipLlavaConfig(
        vision_config=CLIPVisionConfig(**toy.VISION),
        text_config=LlamaConfig(**toy.TEXT),
        image_token_index=tiny.IMAGE,
        vision_feature_layers=[-1, -2],
    )
    return unknown(VipLlavaForConditionalGeneration, config)


def test_an_unknown_class_that_passes_is_pruned_with_its_picture():
    check("llava", vip_llava(), [tiny.sample("llava")])


def test_deepstack_needs_no_file_of_its_own(monkeypatch):
    monkeypatch.delitem(adapters, "Qwen3VLForConditionalGeneration")
    check("qwen3_vl", tiny.model("qwen3_vl"), [tiny.sample("qwen3_vl")])


def test_it_is_tried_once_and_not_kept_alive(monkeypatch):
    asked = []
    monkeypatch.setattr(checking, "self_check", lambda *args: asked.append(1) or self_check(*args))
    model = vip_llava()
    for _ in range(2):
        with prune(model, "grid", retention=0.5):
            pass
    assert asked == [1]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_wrong_formula_is_refused_each_time_and_leaves_no_trace(monkeypatch):
    """Gemma's norm, read as Llama's."""
    monkeypatch.delitem(adapters, "PaliGemmaForConditionalGeneration")
    model = tiny.model("paligemma")
    for _ in range(2):
        with (
            pytest.raises(
                UnsupportedModel, match=r"PaliGemma\w+ is not known, .* in vain: tail saliency differs .* by 0"
            ),
            prune(model, "grid", retention=0.5),
        ):
            pass
    assert not model.get_input_embeddings()._forward_pre_hooks


def test_glm_whose_rotary_interleaves_is_refused():
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32, "image_size": 16}
    config = Glm4vConfig(
        text_config={**toy.TEXT, "rope_parameters": toy.MROPE},
        vision_config={**vision, "intermediate_size": 48},
        **toy.QWEN_IDS,
    )
    model = unknown(Glm4vForConditionalGeneration, config)
    with pytest.raises(UnsupportedModel, match=r"Glm4v.* saliency differs"), prune(model, "grid", retention=0.5):
        pass


@pytest.mark.parametrize(
    ("cls", "config", "says"),
    [
        (LlamaForCausalLM, LlamaConfig(**toy.TEXT), "its configuration names no image_token_id"),
        (
            OPTForCausalLM,
            OPTConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, ffn_dim=48, num_attention_heads=4),
            "its decoder OPTDecoder has no 'norm'",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_known_classes(cls, config, says):
    with pytest.raises(UnsupportedModel) as caught:
        adapter_for(cls(config))
    assert str(caught.value).startswith(f"model class {cls.__name__} is not known, and {says}; known: FastVlmFor")
    assert "\n" not in str(caught.value)


def test_a_model_without_words_or_head_is_refused():
    model = vip_llava()
    model.lm_head = None
    with pytest.raises(UnsupportedModel, match="it has no output embeddings"):
        adapter_for(model)
    model = vip_llava()
    model.model.language_model.embed_tokens = None
    with pytest.raises(UnsupportedModel, match="it has no input embeddings"):
        adapter_for(model)


class TestFaults:
    """Each question can be answered with no."""

    @staticmethod
    def faults(monkeypatch, **broken):
        for name, value in broken.items():
            monkeypatch.setattr(Adapter, name, value)
        return self_check(tiny.model("llava"), prune)

    def test_a_wrong_norm(self, monkeypatch):
        kept = Adapter.finish
        seen = self.faults(monkeypatch, finish=lambda self, layer, rest, new: kept(self, layer, rest, 2 * new))
        assert seen.difference is not None
        assert seen.difference > 0.01
        assert seen.faults[0].startswith("tail saliency differs from autograd's by ")

    def test_a_part_that_is_missing(self, monkeypatch):
        def gone(*_):
            raise UnsupportedModel("LlamaAttention has no 'k_proj'")

        seen = self.faults(monkeypatch, attention_layer=gone)
        assert seen.faults == ("saliency breaks: UnsupportedModel: LlamaAttention has no 'k_proj'",)
        assert (seen.identical, seen.difference, seen.same_kept, seen.generates) == (True, None, None, True)

    def test_something_added_on_the_way(self, monkeypatch):
        def to_the_prompt(_adapter, kwargs):
            entered = kwargs["inputs_embeds"]
            return (
                {2: torch.ones_like(entered)} if entered.shape[1] == len(checking._Trial(model, prune).words[0]) else {}
            )

        model = tiny.model("llava")
        seen = self.faults(monkeypatch, take_additions=to_the_prompt)
        assert seen.identical is False
        assert seen.generates is False
        assert seen.faults[0] == "at retention 1 the logits are not the dense model's"
        assert seen.faults[1].startswith("decoding differs from a longer prompt by ")


def test_words_stand_where_the_picture_would():
    """The placeholders' own embedding is not read: each place is its own."""
    model = tiny.model("llava")
    trial = checking._Trial(model, prune)
    with trial.words_for_the_picture(), torch.no_grad():
        there = model(**trial.inputs(trial.prompt)).logits
        assert torch.equal(there, model(**trial.inputs(trial.words)).logits)
    outputs, _, _ = shortened(model, trial.inputs(trial.words), {})
    assert len(torch.unique(outputs[0], dim=0)) == trial.words.shape[1]
