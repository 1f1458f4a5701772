import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import openai
import pytest
from PIL import Image

from tests.core.tiny import fast_first
from tests.profile.extras.serve.serving import answer, data_url, messages, running
from tests.profile.family_checkpoints import FILES
from tests.profile.studying import make
from trio_profile.errors import StudyError
from trio_profile.extras.serve import listening
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.questions import Question

PEAK = Path("/proc/self/status")
MOST_MEMORY = 150e6
LONG_ANSWER = '{"min_new_tokens": 200}'
GREY = Image.new("RGB", (192, 192), "grey")
DRAW = json.dumps({"do_sample": True, "temperature": 5.0, "max_new_tokens": 8, "eos_token_id": 2, "pad_token_id": 0})


def streamed(chunks):
    """The text of a stream and its last chunk."""
    seen = list(chunks)
    return "".join(chunk.choices[0].delta.content or "" for chunk in seen), seen[-1]


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", fast_first([False, True], True))
@pytest.mark.parametrize("kind", fast_first(["dense", "pruned"], "pruned"))
def test_eight_requests_at_once_get_the_answers_of_one_at_a_time(kind, stream, request):
    served, questions = request.getfixturevalue(kind), exam(8)
    expected = [answer(served, question) for question in questions]

    def ask(question):
        if stream:
            text, last = streamed(found.ask(question, stream=True, temperature=0))
            return text.strip(), last.usage.prompt_tokens, last.usage.completion_tokens
        whole = found.ask(question, temperature=0)
        return whole.choices[0].message.content, whole.usage.prompt_tokens, whole.usage.completion_tokens

    with running(served) as found, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, questions)) == expected
    right = [question.is_answered_by(text) for question, (text, *_) in zip(questions, expected, strict=True)]
    assert all(right)


@pytest.mark.parametrize(
    "name", fast_first(sorted(set(FILES) - {"FastVLM"}), "Qwen2.5-VL")
)  # FastVLM's tower needs timm
def test_each_family_with_a_chat_template_is_served_as_it_is_pruned(saved, name):
    attention = "eager" if name == "PaliGemma 2" else "sdpa"
    study = make(model=str(saved(name)), device="cpu", methods=("trio",), retentions=(0.6,), attention=attention)
    if FILES[name].template is None:
        with pytest.raises(StudyError, match="has no chat template, which a server needs"):
            listening.prepare(study)
        return
    question = Question(lambda: GREY, "What is this?")
    served = listening.prepare(study)
    with running(served) as found:
        whole = found.ask(question)
    text, prompt, new = answer(served, question)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (prompt, new)
    # transformers parses Qwen's answers. The toy's tokenizer has no line ends, so a part of the turn's beginning stays.
    assert whole.choices[0].message.content.endswith(text)


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_before_its_picture_is_answered_with_fewer_supervised_rows(server, stream):
    """AIPerf and GuideLLM put the text first. Two tokens follow the picture then."""
    question = exam(1)[0]
    (message,) = messages(question.text, question.picture())
    turned = [{**message, "content": message["content"][::-1]}]
    made = server.chat.create(model="pocket", messages=turned, max_tokens=4, stream=stream)
    usage = streamed(made)[1].usage if stream else made.usage
    details = usage.prompt_tokens_details
    assert (details.image_tokens, details.image_tokens_before) == (128, 576)
    (note,) = details.notes
    assert note.startswith("k_pos 4 with rows 'last': only 2 supervised")
    assert not hasattr(server.ask(question).usage.prompt_tokens_details, "notes")


def test_a_seed_holds_for_its_request_alone(server):
    question = exam(1)[0]

    def draw(seed):
        return server.ask(question, seed=seed, extra_body={"generation_config": DRAW}).choices[0].message.content

    alone = [draw(seed) for seed in range(3)]
    assert len(set(alone)) > 1
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(draw, range(3))) == alone


# --- usage -----------------------------------------------------------------------------------------------------------


def test_usage_says_what_pruning_kept(server):
    usage = server.ask(exam(1)[0]).usage
    details = usage.prompt_tokens_details
    assert details.image_tokens_before == 576
    assert details.retention == pytest.approx(0.222, abs=0.0005)
    assert details.image_tokens == round(576 * details.retention) == 128
    assert usage.prompt_tokens == details.text_tokens + 128
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


# --- refusals --------------------------------------------------------------------------------------------------------


def with_content(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def with_url(url):
    return with_content({"type": "image_url", "image_url": {"url": url}})


SEEN = with_url(data_url(GREY))
LONG = Image.new("L", (100_000, 1))
REFUSED = (
    ({}, 422, "field 'messages' is missing"),
    ({"messages": []}, 422, "messages []"),
    ({"messages": [{"content": "Hello"}]}, 422, "field 'messages.0.role' is missing"),
    (with_content({"type": "input_audio"}), 422, "input_audio"),
    (with_content({"type": "image_url"}), 422, "image_url' is missing"),
    (with_url("https://example.org/cat.png"), 400, "this server reads no file and fetches nothing"),
    (with_url("/etc/passwd"), 400, "this server reads no file and fetches nothing"),
    (with_url("data:image/png;base64,???"), 400, "the data are not base64"),
    (with_url("data:image/png;base64,AAAA"), 400, "is no picture that can be read; known formats are PNG"),
    (with_url(data_url(LONG)), 400, "100000 × 1 pixels; one side can be 100 times as long as the other at most"),
    (with_content(*SEEN["messages"][0]["content"] * 33), 422, "33 pictures: at most 32 in a request"),
    ({**SEEN, "model": "llava"}, 404, "model 'llava' is not served; this server has 'pocket'"),
    ({**SEEN, "pruning_ratio": 0.5}, 422, "field 'pruning_ratio' is not supported by this server; leave it out"),
    ({**SEEN, "response_format": {"type": "json_object"}}, 422, "field 'response_format' is not supported"),
    ({**SEEN, "n": 5}, 422, "n 5: input should be less than or equal to 1"),
    ({**SEEN, "max_tokens": 0}, 422, "max_tokens 0: input should be greater than or equal to 1"),
    ({**SEEN, "generation_config": "[]"}, 422, "generation_config '[]': value error, give a json object"),
    ({"messages": [{"role": "user", "content": "red " * 8000}]}, 400, "tokens, and the model 1024 positions"),
    ({"messages": [{"role": "user", "content": "red " * 30_000}]}, 413, "more than the model's 1024 positions"),
    ({"messages": [{"role": "user", "content": "x" * (33 << 20)}]}, 413, "the body has more than 33554432 bytes"),
    ({**SEEN, "generation_config": '{"prompt_lookup_num_tokens": 3}'}, 400, "prompt_lookup_num_tokens: assisted"),
    ({**SEEN, "generation_config": '{"cache_implementation": "static"}'}, 400, "cache"),
)


def test_a_request_that_cannot_be_answered_gets_one_line(server):
    question = exam(1)[0]
    for number, (body, status, says) in enumerate(REFUSED):
        asked = {**body, "stream": number % 2 == 1}
        found = httpx2.post(f"{server.url}/chat/completions", json=asked, timeout=60)
        assert (found.status_code, says in found.json()["detail"]) == (status, True), (says, found.text)
        assert "\n" not in found.json()["detail"]
    assert server.ask(question).choices[0].message.content == answer(server.served, question)[0]


def test_fields_of_no_effect_are_accepted(server):
    question = exam(1)[0]
    given = {"n": 1, "user": "me", "store": False, "metadata": {"a": "b"}, "frequency_penalty": 0.0, "top_p": 1.0}
    assert server.ask(question, **given).choices[0].message.content == answer(server.served, question)[0]
    *_, last = server.ask(question, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert last.usage.completion_tokens > 0


def test_an_answer_is_no_longer_than_the_positions_that_are_left(server):
    config = json.dumps({"min_new_tokens": 2000, "max_new_tokens": 4000, "pad_token_id": 0, "do_sample": False})
    text = "at the red star which digit ? " * 142
    made = server.chat.create(
        model="pocket", messages=[{"role": "user", "content": text}], extra_body={"generation_config": config}
    )
    assert made.usage.total_tokens == 1024 and made.choices[0].finish_reason == "length"


@pytest.mark.slow
@pytest.mark.skipif(not PEAK.exists(), reason="the peak of memory is read as Linux has it")
def test_two_hundred_hostile_requests_take_bounded_memory(server):
    """Eight at a time. Client and server are one process, and hold each body as bytes, text and JSON."""
    bodies = [json.dumps(body).encode() for body, _, _ in REFUSED]
    PEAK.with_name("clear_refs").write_text("5")  # the peak begins anew: earlier tests sent the same bodies
    before = peak_bytes()
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda number: post(server, bodies[number % len(bodies)]), range(200))
        assert {one.status_code for one in answers} == {status for _, status, _ in REFUSED}
    assert peak_bytes() - before < MOST_MEMORY


def peak_bytes():
    (line,) = (line for line in PEAK.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def post(server, body):
    headers = {"content-type": "application/json"}
    return httpx2.post(f"{server.url}/chat/completions", content=body, headers=headers, timeout=600)


def test_a_fault_after_the_first_token_is_one_line_of_json(pruned):
    """One before it has a status: that is `test_a_request_that_cannot_be_answered_gets_one_line`."""
    with running(pruned) as server:
        chunks = server.ask(exam(1)[0], stream=True, max_tokens=200, extra_body={"generation_config": LONG_ANSWER})
        assert next(iter(chunks)).choices[0].delta.role == "assistant"
        server.served.turns.stop()
        with pytest.raises(openai.APIError) as seen:
            list(chunks)
    assert seen.value.body == "the server stops"


def test_a_client_that_leaves_does_not_disturb_the_next_one(server):
    first, second = exam(2)
    chunks = server.ask(first, stream=True, max_tokens=200, extra_body={"generation_config": LONG_ANSWER})
    next(iter(chunks))
    chunks.close()
    assert server.ask(second).choices[0].message.content == answer(server.served, second)[0]


# --- paths -----------------------------------------------------------------------------------------------------------


def test_paths_that_would_run_past_pruning_do_not_exist(server):
    for path in ("/v1/completions", "/v1/responses", "/load_model", "/reset"):
        assert httpx2.post(server.url.replace("/v1", path), json={}).status_code == 404, path
