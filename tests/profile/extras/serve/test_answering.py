import base64
import json

import pytest
import torch
from PIL import Image

from tests.core.tiny import fast_first
from tests.profile.extras.serve.serving import NEW_TOKENS, data_url, expected, messages
from tests.profile.family_checkpoints import FILES
from tests.profile.studying import make
from trio_core import OptionError, methods, prune
from trio_profile.errors import ProfileError, StudyError
from trio_profile.extras.serve import answering
from trio_profile.extras.serve.answering import answer, pictures_of, prepare
from trio_profile.extras.serve.request import Refused, read
from trio_profile.inputs.models import load
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.questions import FORMATS, Question
from trio_profile.inputs.workload import ask, placed

GREY = Image.new("RGB", (192, 192), "grey")


def body(question, **fields):
    """A request about a question's picture, as it is read."""
    content = messages(question.text, question.picture())
    return read(json.dumps({"messages": content, "max_tokens": NEW_TOKENS, **fields}).encode(), "pocket", 1024)


def text_body(text, **fields):
    return read(json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode(), "pocket", 10**6)


# --- what is said ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", fast_first(["trio", "visionzip", "visionzip+trio", "fastv", "vtw", "random", "tome"], "visionzip+trio")
)
def test_the_tokens_are_those_of_the_trace(pruned, name):
    (loaded, _), method, question = pruned, methods.find(name)(retention=0.5), exam(1)[0]
    end = answer(loaded, method, body(question))
    inputs = placed(ask(loaded.processor, [question.picture()], question.text), loaded.model)
    with prune(loaded.model, method) as trace:
        made = loaded.model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
    by_layer = trace.schedules[0].tokens_by_layer
    length, mean = inputs["input_ids"].shape[1], sum(by_layer) / len(by_layer)
    assert end.text == loaded.processor.decode(made[0, length:], skip_special_tokens=True)
    kept, new = round(mean), made.shape[1] - length
    assert end.usage == {
        "prompt_tokens": length - 576 + kept,
        "completion_tokens": new,
        "total_tokens": length - 576 + kept + new,
        "prompt_tokens_details": {
            "text_tokens": length - 576,
            "image_tokens": kept,
            "image_tokens_before": 576,
            "retention": pytest.approx(mean / 576),
        },
    }


@pytest.mark.parametrize("kind", ["dense", "pruned"])
def test_a_prompt_without_a_picture_has_text_tokens_only(kind, request):
    usage = answer(*request.getfixturevalue(kind), text_body("which digit ?", max_tokens=2)).usage
    details = usage["prompt_tokens_details"]
    assert usage["prompt_tokens"] == details["text_tokens"] > 0 == details["image_tokens"]


@pytest.mark.parametrize(
    "name", fast_first(sorted(set(FILES) - {"FastVLM"}), "Qwen2.5-VL")
)  # FastVLM's tower needs timm
def test_each_family_with_a_chat_template_is_served_as_it_is_pruned(saved, name):
    attention = "eager" if name == "PaliGemma 2" else "sdpa"
    study = make(model=str(saved(name)), device="cpu", methods=("trio",), retentions=(0.6,), attention=attention)
    if FILES[name].template is None:
        with pytest.raises(StudyError, match="has no chat template, which a server needs"):
            prepare(study)
        return
    question, served, pieces = Question(lambda: GREY, "What is this?"), prepare(study), []
    end = answer(*served, body(question, temperature=0), pieces.append)
    text, prompt, new = expected(served, question)
    assert (end.text, end.usage["prompt_tokens"], end.usage["completion_tokens"]) == (text, prompt, new)
    assert "".join(pieces) == text


def test_pieces_come_with_their_tokens(pruned):
    """transformers' TextStreamer would say nothing until the second word."""
    said = []
    end = answer(*pruned, body(exam(1)[0], ignore_eos=True, max_tokens=5), said.append)
    assert said[:2] == ["", end.text.split()[0]] and len(said) == 7
    assert "".join(said) == end.text and end.usage["completion_tokens"] == 5


def test_a_character_of_several_tokens_is_one_piece():
    class Bytes:
        def decode(self, ids, **_):
            return bytes(ids).decode("utf-8", "replace")

    said = []
    pieces = answering._Pieces(Bytes(), said.append)
    pieces.put(torch.tensor([[1, 2, 3]]))
    for byte in "aé😀".encode() + b"\xc3":
        pieces.put(torch.tensor([byte]))
    pieces.end()
    assert said == ["", "a", "é", "😀", "\N{REPLACEMENT CHARACTER}"] and pieces.text == "".join(said)


def test_a_length_ends_an_answer_and_so_do_the_positions(pruned):
    question = exam(1)[0]
    assert answer(*pruned, body(question)).finish_reason == "stop"
    assert answer(*pruned, body(question, max_tokens=1)).finish_reason == "length"
    assert answer(*pruned, body(question, max_completion_tokens=1, max_tokens=5)).usage["completion_tokens"] == 1
    end = answer(*pruned, text_body("at the red star which digit ? " * 142, ignore_eos=True, max_tokens=2**62))
    assert end.usage["total_tokens"] == 1024 and end.finish_reason == "length"


@pytest.mark.slow
def test_a_seed_holds_for_its_request(pruned):
    def draw(**fields):
        return answer(*pruned, body(exam(1)[0], temperature=2.0, max_tokens=8, ignore_eos=True, **fields)).text

    drawn = [draw(seed=seed) for seed in range(3)]
    assert len(set(drawn)) > 1 and [draw(seed=seed) for seed in range(3)] == drawn
    assert draw(seed=0, top_p=1e-9) == draw(seed=1, top_p=1e-9)


@pytest.mark.parametrize("temperature", [0, 1e-99, 1e-6, 1e-5])
@pytest.mark.slow
def test_the_coldest_temperatures_take_the_likeliest_token(pruned, temperature):
    question = exam(1)[0]
    assert answer(*pruned, body(question, temperature=temperature)).text == expected(pruned, question)[0]


def test_a_developer_is_the_system_of_a_template(pruned, monkeypatch):
    seen = []
    monkeypatch.setattr(answering, "ask_in_messages", lambda _, found, __: seen.extend(found) or {}["stop"])
    given = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    with pytest.raises(KeyError):
        answer(*pruned, read(json.dumps({"messages": given}).encode(), "pocket", 1024))
    assert [message["role"] for message in seen] == ["system", "user"]


def test_a_model_in_bfloat16_takes_the_pixels_as_the_processor_gives_them():
    loaded = load(make(model="pocket", device="cpu", dtype="bfloat16"))
    question = exam(1)[0]
    assert answer(loaded, None, body(question)).text == expected((loaded, None), question)[0]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_prompt_without_room_for_an_answer_is_refused(pruned):
    with pytest.raises(Refused, match="tokens, and the model has room for 1023") as seen:
        answer(*pruned, text_body("red " * 8000))
    assert (seen.value.status, seen.value.code) == (400, "context_length_exceeded")


def test_an_answer_that_is_stopped_leaves_the_model_free(pruned):
    def stop(piece):
        if piece:
            raise Refused(504, "stop")

    with pytest.raises(Refused, match="stop"):
        answer(*pruned, body(exam(1)[0], ignore_eos=True), stop)
    assert answer(*pruned, body(exam(1)[0])).text == exam(1)[0].answer


def long_file(width, height):
    return data_url(Image.new("L", (width, height)))


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "AVIF"])
def test_pictures_of_each_format_are_read(form):
    (picture,) = pictures_of([data_url(GREY, form)])
    assert picture.size == GREY.size


@pytest.mark.parametrize(
    "urls, says",
    [
        (["data:image/png;base64,???"], "the data are not base64"),
        (["data:image/png;base64,é"], "the data are not base64"),
        (["data:image/png;base64,AAAA"], "is no picture that can be read"),
        (["data:image/eps;base64," + base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0\n").decode()], "is no picture"),
        ([data_url(GREY)[:-200]], "is no picture that can be read"),
        ([long_file(100_000, 1)], "one side can be 100 times as long"),
        ([long_file(10_001, 10_000)], "at most 100000000 are read"),
        ([long_file(5000, 5000)] * 5, "more than 100000000 pixels together"),
    ],
)
def test_data_that_are_no_picture_of_a_sensible_size_are_refused(urls, says):
    with pytest.raises(ProfileError, match=says):
        pictures_of(urls)


def test_what_cannot_be_served_is_said_at_the_start():
    for fields, says in (
        ({"model": "llava-1.5-7b"}, "model 'llava-1.5-7b' has random weights; serve pocket or a checkpoint"),
        ({"model": "pocket-deep"}, "model 'pocket-deep' has random weights; serve pocket or a checkpoint"),
        ({"model": "pocket-video"}, "model 'pocket-video' takes clips, and requests have pictures; serve pocket or"),
        ({"model": "nonesuch"}, "unknown model 'nonesuch'"),
        ({"retentions": (0.02,)}, "model 'pocket' cannot be served: .*0.02.*lowest possible is 0.0642"),
        ({"options": {"positions": "sideways"}}, "positions"),
    ):
        with pytest.raises((StudyError, OptionError), match=says):
            prepare(make(**{"model": "pocket", "device": "cpu", "retentions": (0.222,), **fields}))


def test_a_template_that_leaves_out_the_picture_is_refused(monkeypatch, pruned):
    template = "{% for message in messages %}user : {{ message['content'][-1]['text'] }}{% endfor %}"
    monkeypatch.setattr(pruned[0].processor, "chat_template", template)
    monkeypatch.setattr(answering, "load", lambda _study: pruned[0])
    with pytest.raises(StudyError, match=r"cannot be served: the chat template of .* shows 0 of 1 pictures"):
        prepare(make(model="pocket", device="cpu", retentions=(0.222,)))
