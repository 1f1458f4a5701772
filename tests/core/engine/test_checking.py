"""The self-check, and models of classes that no file knows: tried first, and refused with what is missing or wrong."""

import gc
import weakref

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM, PreTrainedModel

from tests.core import tiny, unknown
from tests.core.models.test_families import check
from tests.core.unknown import llava_with
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
    assert seen.difference is not None and 0 < seen.difference < 1e-5


def test_half_precision_passes():
    """Rounding tips a pseudo-label of the first prompt over, and another one is tried."""
    model = adapters["FastVlmForConditionalGeneration"].toy("sdpa").bfloat16()
    assert self_check(model, prune).faults == ()


# --- classes without a file ------------------------------------------------------------------------------------------


def test_an_unknown_class_that_passes_is_pruned_with_its_picture(monkeypatch):
    check("llava", unknown.vip_llava(), [tiny.sample("llava")])
    monkeypatch.delitem(adapters, "Qwen3VLForConditionalGeneration")  # DeepStack needs no file of its own
    check("qwen3_vl", tiny.model("qwen3_vl"), [tiny.sample("qwen3_vl")])


def test_a_trial_runs_in_the_models_own_precision():
    """Under the user's autocast, rounding alone would look like a fault."""
    with torch.autocast("cpu", torch.bfloat16), prune(unknown.aya_vision(), Grid(retention=0.5)):
        pass


def refused(model: PreTrainedModel, says: str, method=Grid(retention=0.5)) -> None:  # noqa: B008
    with tiny.refused(UnsupportedModel, says), prune(model, method):
        pass


def test_an_argument_of_the_decoder_that_we_do_not_know_fails_the_trial(monkeypatch):
    monkeypatch.setattr(adapter, "DEEPSTACK_PAIRS", adapter.DEEPSTACK_PAIRS[:1])
    refused(unknown.granite_vision(), "Granite4Vision.* is not known, and a test of pruning it failed: generate breaks")


def test_a_class_without_a_picture_is_refused_with_what_broke(monkeypatch):
    """Three layers of the tower are to be read that are not there."""
    refused(unknown.made("VipLlava"), "we could not make a picture to try it with: IndexError: tuple index out of")
    for kind in ("VipLlavaModel", "VipLlavaForConditionalGeneration"):
        monkeypatch.delattr(f"transformers.{kind}.get_image_features")
    refused(unknown.vip_llava(), "could not make a picture .*: VipLlavaForConditionalGeneration has no get_image_feat")


def test_a_model_that_does_not_run_is_told_from_one_that_cannot_be_pruned():
    broken, stopped = unknown.vip_llava(), unknown.vip_llava()
    broken.model.language_model.layers[2].mlp = torch.nn.Linear(7, 7)
    refused(broken, "is not known, and on a prompt of words it does not run, pruned or not: dense_forward breaks: Run")
    stopped.prepare_inputs_for_generation = None
    refused(stopped, "on a prompt with a random picture it does not run, pruned or not: dense_generate breaks: TypeErr")


def test_layers_that_are_called_in_another_way_are_named():
    twice = unknown.vip_llava()
    layers = twice.model.language_model.layers
    layers[3].forward = lambda hidden, **given: layers[2](hidden, **given)
    refused(twice, "failed: its decoder layers run in the order 1, 2, 3, 4, 3, 5, 6, and not each once")
    # Under transformers 5.24 its own forward breaks.
    tensor = "decoder layer 1 gets a Tensor as position_embeddings, and no pair of cosines and sines"
    refused(unknown.llama4(), f"{tensor}|it does not run, pruned or not")


def test_pictures_of_each_form_are_made(monkeypatch):
    for family, inputs in (
        ("llava", {"pixel_values"}),
        ("llava_next", {"pixel_values", "image_sizes"}),
        ("idefics3", {"pixel_values"}),
        ("qwen3_vl", {"pixel_values", "image_grid_thw"}),
    ):
        model = tiny.model(family)
        monkeypatch.delitem(adapters, type(model).__name__)
        trial = checking._Trial(model, prune)
        assert trial.picture is not None and trial.picture[0].keys() == inputs, family
        assert self_check(model, prune).faults == (), family


def test_it_is_tried_once_and_not_kept_alive(monkeypatch):
    trials = []
    monkeypatch.setattr(checking, "self_check", lambda *args: trials.append(1) or self_check(*args))
    model = unknown.vip_llava()
    for attention in ("sdpa", "sdpa", "eager"):
        model.set_attn_implementation(attention)
        with prune(model, "grid", retention=0.5):
            pass
    assert trials == [1, 1], "once for each attention"
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_what_fails_is_refused_each_time_and_leaves_no_trace(monkeypatch):
    """Only its own file tells PaliGemma which words were given."""
    monkeypatch.delitem(adapters, "PaliGemmaForConditionalGeneration")
    model = tiny.model("paligemma")
    for _ in range(2):
        refused(
            model, r"PaliGemma\w+ with a 'gemma' decoder is not known, .* failed: decoding gives logits that differ"
        )
    assert not model.get_input_embeddings()._forward_pre_hooks


# --- decoders --------------------------------------------------------------------------------------------------------


KNOWN_DECODERS = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "mistral": {"sliding_window": 10},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "granite": {"residual_multiplier": 0.5, "attention_multiplier": 0.3, "embedding_multiplier": 2.0},
}


def test_a_known_class_with_a_known_decoder_is_what_its_file_says():
    assert KNOWN_DECODERS.keys() == set(Adapter.decoders)
    for kind, options in KNOWN_DECODERS.items():
        model = llava_with(kind, **options)
        assert adapter_for(model).known and self_check(model, prune).faults == (), kind


ROPE = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}


def test_a_decoder_that_cannot_be_taken_apart_is_refused_for_methods_that_need_its_parts():
    """What its layers are is for the decoder to say, not for the class around it. Other methods prune it."""
    known = r"^model class LlavaForCond\w+ with a"
    for model, says in (
        (llava_with("cohere"), f"{known} 'cohere' decoder .* CohereDecoderLayer has no 'post_attention_layernorm'"),
        (llava_with("phi3"), f"{known} 'phi3' decoder .* Phi3Attention has no 'q_proj'.* use saliency 'autograd'"),
        (llava_with("ministral3", head_dim=8, sliding_window=None, rope_parameters=ROPE), "queries scale with their"),
        (llava_with("glm4", head_dim=8), "'glm4' .* saliency .* differs"),  # its rotary embedding interleaves
    ):
        for method in (Trio(retention=0.5, saliency="autograd"), Grid(retention=0.5)):
            with prune(model, method):
                pass
        for method in (Trio(retention=0.5), FastV(retention=0.5)):
            refused(model, says, method)


def test_what_is_missing_is_named_with_the_known_classes():
    opt = OPTConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, ffn_dim=48, num_attention_heads=4)
    headless, wordless = unknown.vip_llava(), unknown.vip_llava()
    headless.lm_head = None
    wordless.model.language_model.embed_tokens = None
    for model, says in (
        (LlamaForCausalLM(LlamaConfig(**toy.TEXT)), "its configuration names no image_token_id"),
        (OPTForCausalLM(opt), "its decoder OPTDecoder has no 'norm'"),
        (headless, "it has no output embeddings"),
        (wordless, "it has no input embeddings"),
    ):
        with pytest.raises(UnsupportedModel, match=rf"^model class \w+ is not known, and {says}; known: FastVlmFor"):
            adapter_for(model)


# --- faults: each question can be answered with no -------------------------------------------------------------------


def test_a_wrong_part_is_a_fault_of_the_question_that_reads_it(monkeypatch):
    finish, head = Adapter.finish, Adapter.head
    words = checking._Trial(model := tiny.model("llava"), prune).words.shape[1]

    def missing(*_):
        raise UnsupportedModel("LlamaAttention has no 'k_proj'")

    def add_to_the_prompt(_adapter, kwargs):
        entered = kwargs["inputs_embeds"]
        return {2: torch.ones_like(entered)} if entered.shape[1] == words else {}

    for part, broken, faults, in_parts in (
        ("finish", lambda self, layer, rest, new: finish(self, layer, rest, 2 * new), ["saliency by `tail`"], True),
        ("head", lambda self, normed: 0.5 * head(self, normed), ["norm and head give logits"], False),
        ("attention_layer", missing, ["saliency: LlamaAttention has no 'k_proj'"], True),
        ("take_additions", add_to_the_prompt, ["at retention 1 the logits", "decoding gives logits"], False),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Adapter, part, broken)
            seen = self_check(model, prune)
        assert all(ours.startswith(says) for ours, says in zip(seen.faults, faults, strict=False)), (part, seen.faults)
        assert len(seen.faults) >= len(faults) and bool(seen.apart) >= in_parts, part
        assert (seen.identical, seen.generates) == ((False, False) if part == "take_additions" else (True, True)), part
