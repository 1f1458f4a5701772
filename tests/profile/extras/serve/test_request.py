import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_profile.extras.serve import request
from trio_profile.extras.serve.request import Body, Refused, read

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
URL = "data:image/png;base64,AAAA"


def taken(**fields):
    return read(json.dumps({**HELLO, **fields}).encode(), "pocket", 1024)


def with_content(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def with_url(url):
    return with_content({"type": "image_url", "image_url": url})


def test_a_text_is_one_part_and_an_address_needs_no_object():
    (message,) = taken().messages
    assert message.content == [request.Part(type="text", text="Hello")]
    (part,) = taken(**with_url(URL)).parts
    assert part.image_url.url == URL


NEUTRAL = {
    "logprobs": False, "top_logprobs": 0, "presence_penalty": 0, "frequency_penalty": 0.0, "stop": None, "n": 1,
    "logit_bias": {}, "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto", "store": False,
    "service_tier": "auto", "parallel_tool_calls": True, "modalities": ["text"], "repetition_penalty": 1.0,
    "top_k": -1, "min_p": 0, "audio": None, "reasoning_effort": None, "metadata": None, "user": None,
    "temperature": None, "top_p": None, "seed": None, "max_tokens": None, "stream": None, "stream_options": None,
}  # fmt: skip


def test_neutral_values_pass():
    assert taken(**NEUTRAL) == taken()
    echoed = {"role": "assistant", "content": "No.", "refusal": None, "tool_calls": None, "annotations": []}
    assert len(taken(messages=[*HELLO["messages"], echoed]).messages) == 2
    assert taken(**with_url({"url": URL, "detail": "auto"})).parts


REFUSED = {
    **{f"{name} = {value!r}": ({name: value}, name) for name, value in (
        ("chat_template_kwargs", {"images": ["/etc/passwd"]}), ("generation_config", '{"num_beams": 3000}'),
        ("size", 40000), ("num_beams", 3000), ("max_length", 2_000_000_000), ("do_sample", False),
        ("pruning_ratio", None), ("n", 5), ("logprobs", True), ("presence_penalty", 0.1), ("stop", "a"),
        ("tools", [{}]),
        ("response_format", {"type": "json_object"}), ("temperature", -1), ("temperature", 2.1), ("temperature", "1"),
        ("top_p", 0), ("max_tokens", 0), ("max_tokens", 1.0), ("max_tokens", True), ("stream", "yes"), ("seed", 0.5),
        ("stream_options", {"include_usage": True, "more": 1}), ("stream_options", []), ("metadata", {"a": {}}),
        ("messages", []), ("messages", "Hello"), ("messages", [0]), ("model", 5), ("model", "llava"),
        ("model", "../pocket"),
    )},
    "no role": ({"messages": [{"content": "Hello"}]}, "messages.0.role"),
    "a tool": ({"messages": [{"role": "tool", "content": "Hello"}]}, "messages.0.role"),
    "no content": ({"messages": [{"role": "user"}]}, "messages.0.content"),
    "audio": (with_content({"type": "input_audio", "input_audio": {}}), "messages.0.content.0.type"),
    "a video": (with_content({"type": "video_url", "video_url": {"url": URL}}), "messages.0.content.0.type"),
    "a picture without address": (with_content({"type": "image_url"}), "messages.0.content.0"),
    "a picture that is null": (with_url(None), "messages.0.content.0"),
    "a text with a picture": (with_content({"type": "text", "text": "a", "image_url": URL}), "messages.0.content.0"),
    "a field of a picture": (with_url({"url": URL, "path": "/etc"}), "messages.0.content.0.image_url.path"),
    "low detail": (with_url({"url": URL, "detail": "low"}), "messages.0.content.0.image_url.detail"),
    "33 pictures": (with_content(*with_url(URL)["messages"][0]["content"] * 33), "messages"),
    "long text": ({"messages": [{"role": "user", "content": "red " * 30_000}]}, "messages"),
}  # fmt: skip


@pytest.mark.parametrize("fields, param", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_by_name(fields, param):
    with pytest.raises(Refused) as seen:
        taken(**fields)
    error = seen.value.document()["error"]
    assert (
        error["param"].startswith(param) and 400 <= seen.value.status < 500 and error["type"] == "invalid_request_error"
    )
    assert "\n" not in error["message"] and len(error["message"]) < 1100


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a.png", "https://127.0.0.1/", "file:///etc/passwd", "ftp://example.org/a.png",
        "/etc/passwd",
        "a.png", "//example.org/a.png", "data:text/html;base64,AAAA", "data:image/png,AAAA", "data:,", "", " " + URL,
        "data:image/png;base64", "data:application/json;x=data:image/png;base64,AAAA", "javascript:0",
        "DATA:image/png,",
        "data:image/" + "a" * 200 + ";base64,AAAA",
    ],
)  # fmt: skip
def test_an_address_that_is_no_picture_itself_is_refused(url):
    for address in (url, {"url": url}):
        with pytest.raises(Refused, match="this server reads no file and fetches nothing"):
            taken(**with_url(address))


BODIES = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"{", "not JSON"),
    "no object": (b"[]", "body = "),
    "no UTF-8": (b'{"user": "\xff"}', "not UTF-8"),
    "half a character": (b'{"user": "\\ud800"}', "half a character"),
    "NaN": (b'{"temperature": NaN}', "NaN"),
    "Infinity": (b'{"temperature": -Infinity}', "Infinity"),
    "infinite by its size": (b'{"temperature": 1e999}', "not finite"),
    "a huge integer": (b'{"seed": ' + b"9" * 5000 + b"}", "limit"),
    "an integer of 65 bits": (b'{"seed": 18446744073709551616}', "65 bits"),
    "the same field twice": (b'{"messages": [], "user": "a", "messages": []}', "'messages' twice"),
    "the same inner field twice": (b'{"messages": [{"role": "user", "role": "system"}]}', "'role' twice"),
    "65 levels": (b'{"user": ' + b"[" * 65 + b"]" * 65 + b"}", "deeper than 64"),
    "20,000 levels": (b"[" * 20_000, "deeper than"),
    "many levels": (b"[" * 60_000, "commas and brackets"),
    "many values": (b'{"messages": [' + b"{}," * 60_000 + b"{}]}", "commas and brackets"),
}


@pytest.mark.parametrize("raw, says", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_plain_json_is_refused(raw, says):
    with pytest.raises(Refused, match=says):
        read(raw, "pocket", 1024)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
NAMES = st.sampled_from([*Body.model_fields, *Body.neutral, "images", "tools", "generation_config"])


@settings(max_examples=100)
@given(st.binary() | st.dictionaries(NAMES, JSON).map(lambda fields: json.dumps({**HELLO, **fields}).encode()))
@pytest.mark.slow
def test_any_body_is_read_or_refused(raw):
    try:
        assert isinstance(read(raw, "pocket", 1024), Body)
    except Refused as refusal:
        assert 400 <= refusal.status < 500
        json.dumps(refusal.document())
