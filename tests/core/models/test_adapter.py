"""The adapters: what pruning knows of each family."""

from tests.core import tiny
from trio_core.models import adapter_for, plain_prompt
from trio_core.models.adapter import adapters, families


@tiny.every_kernel
def test_each_family_has_its_adapter_layers_and_attention(family, attention):
    adapter = adapter_for(tiny.model(family, attention))
    assert type(tiny.model(family)).__name__ in adapter.classes
    assert len(adapter.layers) == tiny.NUM_LAYERS
    assert adapter.attention == attention
    assert adapter.known
    rope = getattr(adapter.decoder.config, "rope_parameters", None) or {}
    assert adapter.multi_axis_positions == ("mrope_section" in rope)


def test_every_registered_class_has_a_toy():
    assert {name for cls in adapters.values() for name in cls.classes} == set(adapters)
    assert {type(tiny.model(family)).__name__ for family in tiny.FAMILIES} == {
        cls.classes[0] for cls in adapters.values()
    }
    assert set(tiny.NAMES.values()) == set(families) >= {cls.family for cls in adapters.values()}


def test_a_subclass_of_a_model_class_has_the_same_adapter():
    class Mine(type(tiny.model("llava"))):
        pass

    assert adapter_for(Mine(tiny.model("llava").config)).family == "LLaVA-1.5"


def test_a_checkpoint_without_a_chat_template_is_asked_in_the_form_of_its_family():
    class PaliGemmaProcessor:
        pass

    class Derived(PaliGemmaProcessor):
        pass

    pictures = ["<image>", "<image>"]
    assert plain_prompt(object(), pictures, "What?") == "USER: <image>\n<image>\nWhat? ASSISTANT:"
    assert plain_prompt(PaliGemmaProcessor(), pictures, "What?") == "<image><image>What?"
    assert plain_prompt(Derived(), pictures, "What?") == "<image><image>What?"
