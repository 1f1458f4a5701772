"""The adapters: what pruning knows of each family."""

import pytest
import torch

from tests.core import reference, tiny
from trio_core import UnsupportedModel, prune
from trio_core.models import adapter_for, plain_prompt, toy
from trio_core.models.adapter import adapters, families
from trio_core.models.generic import Generic


@tiny.every_kernel
def test_each_family_has_its_adapter_layers_and_attention(family, attention):
    adapter = adapter_for(tiny.model(family, attention))
    assert type(tiny.model(family)).__name__ in adapter.classes
    assert len(adapter.layers) == tiny.NUM_LAYERS
    assert adapter.attention == attention
    assert adapter.known
    rope = model_rope_parameters(family)
    assert adapter.multi_axis_positions == ("mrope_section" in rope)


def model_rope_parameters(family: str) -> dict[str, object]:
    return getattr(tiny.model(family).config.get_text_config(), "rope_parameters", None) or {}


def test_every_registered_class_has_a_toy():
    assert {name for cls in adapters.values() for name in cls.classes} == set(adapters)
    assert {type(tiny.model(family)).__name__ for family in tiny.FAMILIES} == set(adapters)
    assert set(tiny.NAMES.values()) == set(families) >= {cls.family for cls in adapters.values()}


def test_short_names_are_unique_and_can_be_guessed():
    assert len(tiny.NAMES) == len(families)
    assert {"llava", "llava_next", "qwen2_5_vl", "gemma3", "paligemma2", "video_llava"} <= set(tiny.FAMILIES)


@tiny.every_family
def test_readout_of_the_last_layers_output_equals_the_logits(family):
    model, one = tiny.model(family), tiny.sample(family)
    adapter, last = adapter_for(model), []
    handle = adapter.layers[-1].register_forward_hook(lambda _layer, _inputs, output: last.append(output))
    with torch.no_grad():
        logits = model(**one).logits
        handle.remove()
        assert torch.equal(adapter.readout(last[0]), logits)


@pytest.mark.parametrize("family", ["llava", "llava_next"])
def test_rotary_equals_the_formula(family):
    model = tiny.model(family)
    positions = torch.tensor([[0, 1, 5], [2, 3, 9]])
    cos, sin = adapter_for(model).rotary(torch.zeros(2, 3, 32), positions)
    head = torch.randn(1, 3, 8)
    for b in range(2):
        turned = torch.cat([-head[..., 4:], head[..., :4]], dim=-1)
        expected = reference.Decoder(model).rotate(head, positions[b])
        assert torch.allclose(head * cos[b] + turned * sin[b], expected, atol=1e-6)


@tiny.every_family
def test_visual_tokens_are_true_at_the_placeholders(family):
    adapter = adapter_for(tiny.model(family))
    one = tiny.sample(family)
    found = adapter.visual_tokens(one["input_ids"])
    assert found.dtype == torch.bool
    assert found[0].nonzero().squeeze(1).tolist() == tiny.visual_rows(one).tolist()


def test_video_placeholders_are_visual_tokens_too():
    adapter = adapter_for(tiny.model("qwen2_5_vl"))
    assert adapter.visual_tokens(torch.tensor([[1, tiny.VIDEO, 2, tiny.IMAGE]])).tolist() == [
        [False, True, False, True]
    ]


def test_a_subclass_of_a_model_class_has_the_same_adapter():
    class Mine(type(tiny.model("llava"))):
        pass

    assert adapter_for(Mine(tiny.model("llava").config)).family == "LLaVA-1.5"


@tiny.every_family
def test_a_model_without_decoder_layers_is_refused_in_one_line(family):
    cls = families[tiny.NAMES[family]]
    config = cls.toy_config()
    text = config.get_text_config()
    text.num_hidden_layers = 0
    if getattr(text, "layer_types", None):
        text.layer_types = []
    model = toy.build(type(tiny.model(family)), config, cls.toy_attention[-1], seed=0)
    says = f"{type(model).__name__} has no decoder layers .num_hidden_layers: 0 .*; load or build it with at least one"
    with pytest.raises(UnsupportedModel, match=says) as caught:
        adapter_for(model)
    assert "\n" not in str(caught.value)
    with pytest.raises(UnsupportedModel, match="no decoder layers"), prune(model, "trio", retention=0.5):
        pass


def test_a_model_of_no_family_without_decoder_layers_is_refused_too(monkeypatch):
    monkeypatch.delitem(adapters, "LlavaForConditionalGeneration")
    config = families["LLaVA-1.5"].toy_config()
    model = toy.build(type(tiny.model("llava")), config, "sdpa", seed=0)
    assert isinstance(adapter_for(model), Generic)
    config.text_config.num_hidden_layers = 0
    with pytest.raises(UnsupportedModel, match="LlavaForConditionalGeneration has no decoder layers"):
        adapter_for(toy.build(type(model), config, "sdpa", seed=0))


def test_a_checkpoint_without_a_chat_template_is_asked_in_the_form_of_its_family():
    class PaliGemmaProcessor:
        pass

    class Derived(PaliGemmaProcessor):
        pass

    pictures = ["<image>", "<image>"]
    assert plain_prompt(object(), pictures, "What?") == "USER: <image>\n<image>\nWhat? ASSISTANT:"
    assert plain_prompt(PaliGemmaProcessor(), pictures, "What?") == "<image><image>What?"
    assert plain_prompt(Derived(), pictures, "What?") == "<image><image>What?"
