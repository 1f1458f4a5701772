import pytest
from PIL import Image
from torch import equal

from tests.core.tiny import fast_first
from trio_core.models import adapter_for
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.chat import ask_in_messages
from trio_profile.inputs.models import load
from trio_profile.inputs.workload import ask
from trio_profile.records.study import Study

PICTURE = Image.new("RGB", (48, 48), "red")
TEMPLATE = """\
{% for message in messages %}[{{ message['role'] }}]\
{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}\
{% endfor %}{% endfor %}[assistant]"""


@pytest.fixture
def processor(checkpoint):
    found = load(Study(model=str(checkpoint))).processor
    found.chat_template = TEMPLATE
    return found


def message(*parts, role="user"):
    """A message of pictures (None) and texts."""
    content = [{"type": "image"} if part is None else {"type": "text", "text": part} for part in parts]
    return {"role": role, "content": content}


def spelled(processor, inputs) -> str:
    """The prompt, with one <image> for each picture."""
    text = processor.tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=False)
    return text.replace("<image>" * 36, "<image>")


def test_messages_keep_their_order_their_roles_and_their_pictures(processor):
    messages = [
        message("Be brief.", role="system"),
        message("Which?", None),
        message("red", role="assistant"),
        message(None, "And ", None, "?"),
    ]
    inputs = ask_in_messages(processor, messages, [PICTURE] * 3)
    said = "[system]Be brief.[user]Which?<image>[assistant]red[user]<image>And <image>?[assistant]"
    assert said in spelled(processor, inputs)
    assert inputs["pixel_values"].shape[0] == 3


def test_one_message_is_asked_like_a_plain_question(processor):
    for template in (TEMPLATE, None):
        processor.chat_template = template
        inputs = ask_in_messages(processor, [message(None, "Which <image>one?")], [PICTURE])
        assert equal(inputs["input_ids"], ask(processor, [PICTURE], "Which one?")["input_ids"])


@pytest.mark.parametrize("family", fast_first(["Gemma 3", "LLaVA-NeXT", "Qwen2.5-VL", "SmolVLM"], "Qwen2.5-VL"))
def test_the_templates_of_families_take_several_pictures_system_messages_and_examples(saved, family):
    loaded = load(Study(model=str(saved(family))))
    adapter = adapter_for(loaded.model)

    def visual(messages, pictures: int) -> int:
        inputs = ask_in_messages(loaded.processor, messages, [PICTURE] * pictures)
        return int(adapter.visual_tokens(inputs["input_ids"]).sum())

    one = visual([message(None, "Which?")], 1)
    assert one > 0 and visual([message("Which?", None, "and", None)], 2) == 2 * one
    example = [message(None, "Which?"), message("red", role="assistant"), message(None, "Which?")]
    assert visual([message("Be brief.", role="system"), *example], 2) == 2 * one
    marks = {loaded.processor.image_token, getattr(loaded.processor.tokenizer, "image_token", "")}
    assert visual([message(None, f"Which {''.join(marks)} one?")], 1) == one


def test_a_template_that_leaves_out_a_picture_is_refused(processor):
    processor.chat_template = "<image>{{ messages[0]['content'][0]['text'] }}"
    with pytest.raises(StudyError, match="shows 1 of 2 pictures"):
        ask_in_messages(processor, [message("Which?", None, None)], [PICTURE, PICTURE])


@pytest.mark.parametrize(
    "messages",
    [[message("Which?", None)], [message(None, "Which?"), message("red", role="assistant")]],
    ids=["text first", "two messages"],
)
def test_without_a_template_only_one_message_with_pictures_first_can_be_asked(messages):
    processor = BUILTIN["pocket-deep"].processor
    assert processor is not None
    with pytest.raises(StudyError, match="has no chat template"):
        ask_in_messages(processor(), messages, [PICTURE])
