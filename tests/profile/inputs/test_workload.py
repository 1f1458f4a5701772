from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from tests.profile.checkpoints import VISUAL_TOKENS
from trio_profile.errors import StudyError
from trio_profile.inputs.workload import OWN_QUESTIONS, ask, build, padding
from trio_profile.records.schema import Study


def test_a_checkpoint_takes_a_photograph_and_a_question(tiny_workload, tiny_study):
    ids = tiny_workload.inputs["input_ids"][0]
    assert (ids == 4).sum() == VISUAL_TOKENS == tiny_workload.shape.visual_tokens
    processor_text = len("USER: \nWhat is this? ASSISTANT:")
    assert tiny_workload.shape.text_tokens == processor_text
    assert tiny_workload.generate().shape[1] == len(ids) + tiny_study.new_tokens


def test_the_loaded_model_is_the_saved_one(tiny_workload, tiny_study):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(tiny_study.model, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(**tiny_workload.inputs, logits_to_keep=1).logits
    assert torch.equal(logits, tiny_workload.prefill().logits)


@pytest.mark.parametrize("name", ["pocket", "pocket-deep"])
def test_pocket_draws_its_input_and_can_take_a_picture(photograph, name: str):
    drawn = build(Study(model=name, text_tokens=60, batch=2))
    assert drawn.inputs["input_ids"].shape == (2, 636)
    assert drawn.shape.visual_tokens == 576
    assert drawn.shape.text_tokens == 60
    pictured = build(Study(model=name, image=str(photograph), prompt="A cat?"))
    assert pictured.shape.visual_tokens == 576
    words = len(["<s>", "USER", ":", "A", "cat", "?", "ASSISTANT", ":"])
    assert pictured.shape.text_tokens == (words if name == "pocket" else len("USER: \nA cat? ASSISTANT:"))


def test_pocket_is_asked_its_own_questions_of_three_hops():
    from trio_profile.inputs.pocket.grammar import exam

    alone, two = build(Study()), build(Study(batch=2))
    assert two.inputs["input_ids"].shape[0] == 2
    assert torch.equal(two.inputs["input_ids"][:1], alone.inputs["input_ids"])
    assert not torch.equal(two.inputs["pixel_values"][0], two.inputs["pixel_values"][1])
    text = alone.processor.tokenizer.decode(alone.inputs["input_ids"][0], skip_special_tokens=True)
    assert exam(1)[0].kind == "3 hops" and exam(1)[0].text in text
    assert len(alone.questions) == OWN_QUESTIONS == 24
    assert not build(Study(text_tokens=60)).inputs["input_ids"].equal(alone.inputs["input_ids"])


@pytest.mark.parametrize("study", [Study(), Study(model="pocket-deep", text_tokens=40)])
def test_shape_without_weights_is_the_shape_with_them(study: Study):
    assert build(study, weights=False).shape == build(study).shape


def test_a_true_size_model_without_tokenizer_refuses_a_prompt(monkeypatch):
    from trio_profile.inputs import workload
    from trio_profile.inputs.builtin import BUILTIN
    from trio_profile.inputs.models import Loaded, without_weights

    builtin = BUILTIN["llava-1.5-7b"]
    monkeypatch.setattr(workload, "load", lambda *_, **__: Loaded(without_weights(builtin), None, builtin))
    with pytest.raises(StudyError, match="no tokenizer; a picture or a prompt needs a checkpoint, --model DIR"):
        build(Study(model="llava-1.5-7b", prompt="What?"))


@pytest.fixture(scope="module")
def processor():
    return build(Study(fidelity_inputs=10)).processor


GREY = Image.new("RGB", (20, 20), "grey")
TURN = "USER: <image>\n{{ messages[0]['content'][1]['text'] }} ASSISTANT:"


def test_a_chat_template_that_begins_the_text_itself_does_not_begin_it_twice(processor, monkeypatch):
    plain = ask(processor, [GREY], "which digit ?")
    monkeypatch.setattr(processor, "chat_template", "{{ bos_token }}" + TURN)
    assert torch.equal(ask(processor, [GREY], "which digit ?")["input_ids"], plain["input_ids"])
    assert (plain["input_ids"] == processor.tokenizer.bos_token_id).sum() == 1


@pytest.mark.parametrize(
    "template", ["{{ messages[0]['content'] + 'x' }}", "{{ raise_exception('one text, please') }}", "{% if %}"]
)
def test_a_chat_template_that_refuses_is_named(processor, monkeypatch, template):
    monkeypatch.setattr(processor, "chat_template", template)
    with pytest.raises(StudyError, match="the chat template of LlavaProcessor refuses a question"):
        ask(processor, [GREY], "which digit ?")


def test_the_padding_token_is_the_tokenizers_own_or_its_end_token(processor):
    assert padding(processor) == processor.tokenizer.pad_token_id == 0
    assert padding(SimpleNamespace(tokenizer=SimpleNamespace(pad_token_id=None, eos_token_id=7))) == 7


def test_a_question_that_the_processor_refuses_is_named(processor, monkeypatch):
    def refuses(*_, text, **__):
        if "digit" in text[0]:
            raise ValueError("no digits")
        return encoded(text)

    workload = build(Study(fidelity_inputs=10))
    encoded = lambda text: processor(images=[GREY], text=text, return_tensors="pt")  # noqa: E731
    monkeypatch.setattr(type(workload.processor), "__call__", refuses)
    number = next(n for n, question in enumerate(workload.questions) if "digit" in question.text)
    with pytest.raises(StudyError, match=rf"question {number + 1}, .*: LlavaProcessor refuses .* no digits"):
        workload.inputs_of(number)


def test_the_length_of_random_text_is_refused_where_the_text_is_a_prompt(tiny_study):
    with pytest.raises(StudyError, match="text_tokens 10: random text is for a built-in model"):
        build(tiny_study.model_copy(update={"text_tokens": 10}))


def test_a_model_without_visual_tokens_is_refused(tiny_study, monkeypatch):
    from trio_profile.inputs import workload

    monkeypatch.setattr(workload, "_processed", lambda *_: {"input_ids": torch.tensor([[5, 6, 7]])})
    with pytest.raises(StudyError, match="holds no visual tokens"):
        build(tiny_study)
