"""The self-check, and models of classes that no file knows: tried first, and refused with what is missing or wrong."""

import gc
import weakref

import pytest
import torch
import transformers
from transformers import (
    CLIPVisionConfig,
    CohereConfig,
    Glm4vConfig,
    Glm4vForConditionalGeneration,
    GraniteConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    Ministral3Config,
    MistralConfig,
    OPTConfig,
    OPTForCausalLM,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    VipLlavaConfig,
    VipLlavaForConditionalGeneration,
)

from tests.core import tiny
from tests.core.models.test_families import check
from trio_core import Trio, UnsupportedModel, prune
from trio_core.engine import checking
from trio_core.engine.checking import self_check
from trio_core.methods.fastv import FastV
from trio_core.methods.grid import Grid
from trio_core.models import adapter, adapter_for, toy
from trio_core.models.adapter import Adapter, adapters


@tiny.every_kernel
def test_every_family_passes(family, attention):
    seen = self_check(tiny.model(family, attention), prune)
    assert (seen.identical, seen.same_kept, seen.generates, seen.faults) == (True, True, True, ())
    assert seen.difference is not None
    assert 0 < seen.difference < 1e-5


def test_half_precision_passes():
    """Rounding tips a pseudo-label of the first prompt over, and another one is tried."""
    model = adapters["FastVlmForConditionalGeneration"].toy("sdpa").bfloat16()
    assert self_check(model, prune).faults == ()


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


def granite_vision():
    """Features of three of the tower's layers enter at decoder layers 1 and 3, and spatial ones at four layers."""
    name = "Granite4VisionForConditionalGeneration"
    if not hasattr(transformers, name):
        pytest.skip(f"this transformers has no {name}")
    scales = {"logits_scaling": 2.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5}
    config = transformers.Granite4VisionConfig(
        vision_config=CLIPVisionConfig(**{**toy.VISION, "hidden_size": 64}),
        text_config={**toy.TEXT, **scales, "attention_multiplier": 0.3},
        image_token_index=tiny.IMAGE,
        image_grid_pinpoints=toy.PINPOINTS,
        downsample_rate="1/2",
        deepstack_layer_map=[[0, 0], [1, 2]],
        spatial_target_layers=[1, 3, 4, 5],
        qformer_config={
            "model_type": "blip_2_qformer",
            "hidden_size": 64,
            "encoder_hidden_size": 64,
            "num_attention_heads": 1,
            "num_hidden_layers": 1,
            "intermediate_size": 48,
            "cross_attention_frequency": 1,
            "max_position_embeddings": 64,
        },
    )
    return unknown(getattr(transformers, name), config)


class TestAPictureInTheTrial:
    def test_granite_adds_its_features_to_kept_tokens(self):
        model = granite_vision()
        seen = self_check(model, prune)
        assert seen.picture
        assert seen.faults == ()
        trial = checking._Trial(model, prune)
        assert trial.picture is not None
        ids = torch.tensor([[3, 1, 4, *[tiny.IMAGE] * trial.picture[1], *range(20, 29)]])
        check("llava", model, [trial.inputs(ids)])

    @staticmethod
    def refused(model, says):
        with pytest.raises(UnsupportedModel, match=says) as caught, prune(model, "grid", retention=0.5):
            pass
        assert "\n" not in str(caught.value)

    def test_features_by_names_that_we_do_not_know_are_refused(self, monkeypatch):
        monkeypatch.setattr(adapter, "DEEPSTACK_PAIRS", adapter.DEEPSTACK_PAIRS[:1])
        self.refused(
            granite_vision(), "Granite4Vision.* is not known, and a test of pruning it failed: generate breaks"
        )

    def test_without_a_picture_arguments_that_we_do_not_know_are_refused(self, monkeypatch):
        monkeypatch.setattr(checking, "random_picture", lambda *_: None)
        monkeypatch.setattr(checking, "DECODER_ARGUMENTS", checking.DECODER_ARGUMENTS - {"vision_mask"})
        self.refused(
            granite_vision(), "its decoder takes 'vision_mask', and we could not make a picture to try it with"
        )

    @pytest.mark.parametrize(
        ("family", "inputs"),
        [
            ("llava", {"pixel_values"}),
            ("llava_next", {"pixel_values", "image_sizes"}),
            ("idefics3", {"pixel_values"}),
            ("qwen2_5_vl", {"pixel_values", "image_grid_thw"}),
            ("qwen3_vl", {"pixel_values", "image_grid_thw"}),
        ],
    )
    def test_pictures_of_each_form_are_found(self, family, inputs, monkeypatch):
        model = tiny.model(family)
        monkeypatch.delitem(adapters, type(model).__name__)
        trial = checking._Trial(model, prune)
        assert trial.picture is not None
        assert trial.picture[0].keys() == inputs
        assert self_check(model, prune).faults == ()


def test_it_is_tried_once_and_not_kept_alive(monkeypatch):
    asked = []
    monkeypatch.setattr(checking, "self_check", lambda *args: asked.append(1) or self_check(*args))
    model = vip_llava()
    for attention in ("sdpa", "sdpa", "eager"):
        model.set_attn_implementation(attention)
        with prune(model, "grid", retention=0.5):
            pass
    assert asked == [1, 1], "once for each attention"
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_what_fails_is_refused_each_time_and_leaves_no_trace(monkeypatch):
    """Only its own file tells PaliGemma which words were given."""
    monkeypatch.delitem(adapters, "PaliGemmaForConditionalGeneration")
    model = tiny.model("paligemma")
    says = r"PaliGemma\w+ with a 'gemma' decoder is not known, .* failed: decoding gives logits that differ .* by 0"
    for _ in range(2):
        with pytest.raises(UnsupportedModel, match=says), prune(model, "grid", retention=0.5):
            pass
    assert not model.get_input_embeddings()._forward_pre_hooks


def test_glm_whose_rotary_interleaves_is_not_taken_apart():
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "out_hidden_size": 32, "image_size": 16}
    config = Glm4vConfig(
        text_config={**toy.TEXT, "rope_parameters": toy.MROPE},
        vision_config={**vision, "intermediate_size": 48},
        **toy.FRAMED_PLACEHOLDERS,
    )
    model = unknown(Glm4vForConditionalGeneration, config)
    refused_where_taken_apart(model, r"Glm4v.* saliency .* differs")


def refused_where_taken_apart(model: PreTrainedModel, says: str) -> None:
    for method in (Trio(retention=0.5, saliency="autograd"), Grid(retention=0.5)):
        with prune(model, method):
            pass
    for method in (Trio(retention=0.5), FastV(retention=0.5)):
        with pytest.raises(UnsupportedModel, match=says), prune(model, method):
            pass


def llava_with(text: PreTrainedConfig) -> PreTrainedModel:
    vision = CLIPVisionConfig(**toy.VISION)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=tiny.IMAGE)
    return unknown(LlavaForConditionalGeneration, config)


KNOWN_DECODERS = [
    LlamaConfig(**toy.TEXT, attention_bias=True, mlp_bias=True),
    MistralConfig(**toy.TEXT, sliding_window=10),
    Qwen2Config(**toy.TEXT),
    Qwen3Config(**toy.TEXT, head_dim=8),
    GraniteConfig(**toy.TEXT, residual_multiplier=0.5, attention_multiplier=0.3, embedding_multiplier=2.0),
]


def test_every_known_decoder_is_tried_here():
    assert {text.model_type for text in KNOWN_DECODERS} == set(Adapter.decoders)


@pytest.mark.parametrize("text", KNOWN_DECODERS, ids=lambda text: text.model_type)
def test_a_known_class_with_a_known_decoder_is_what_its_file_says(text):
    model = llava_with(text)
    assert adapter_for(model).known
    assert self_check(model, prune).faults == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CohereConfig(**toy.TEXT), "a 'cohere' decoder .* CohereDecoderLayer has no 'post_attention_layernorm'"),
        (Phi3Config(**toy.TEXT), "a 'phi3' decoder .* Phi3Attention has no 'q_proj'.* use saliency 'autograd'"),
    ],
    ids=lambda case: getattr(case, "model_type", None),
)
def test_a_known_class_with_another_decoder_is_tried(text, says):
    """What its layers are is for the decoder to say, not for the class around it."""
    refused_where_taken_apart(llava_with(text), rf"^model class LlavaForCond\w+ with {says}")


def test_layers_that_count_by_position_ids_get_those_of_the_kept_tokens():
    """Ministral 3 scales queries by their place, at its toy from the eighth on."""
    rope = {"rope_theta": 1e4, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}
    text = Ministral3Config(
        **toy.TEXT, head_dim=8, sliding_window=None, rope_parameters={"rope_type": "default", **rope}
    )
    refused_where_taken_apart(llava_with(text), "queries scale with their position: .* use saliency 'autograd'")


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
        assert seen.faults[0].startswith("saliency by `tail` differs from `autograd` by ")

    def test_a_wrong_head(self, monkeypatch):
        kept = Adapter.head
        seen = self.faults(monkeypatch, head=lambda self, normed: 0.5 * kept(self, normed))
        assert seen.faults == ("norm and head give logits that differ from the model's by 0.5 of the largest logit",)
        assert seen.apart == ()

    def test_a_part_that_is_missing(self, monkeypatch):
        def gone(*_):
            raise UnsupportedModel("LlamaAttention has no 'k_proj'")

        seen = self.faults(monkeypatch, attention_layer=gone)
        assert seen.faults == seen.apart == ("saliency breaks: UnsupportedModel: LlamaAttention has no 'k_proj'",)
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
        assert seen.faults[1].startswith("decoding gives logits that differ from a longer prompt's by ")
