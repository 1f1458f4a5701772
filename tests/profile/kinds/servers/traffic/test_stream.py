import json

import pytest

from trio_profile.kinds.servers.traffic.stream import Stream, message_of


def read(*events: object) -> Stream:
    """A stream in which an event comes each second, from second 1 on."""
    found = Stream()
    for second, event in enumerate(events, start=1):
        found.read(event if isinstance(event, str) else f"data: {json.dumps(event)}", float(second))
    return found


def said(text: str | None, **delta: object) -> dict:
    return {"choices": [{"delta": {"content": text, **delta}, "finish_reason": None}]}


END = {"choices": [{"delta": {}, "finish_reason": "length"}]}


def test_the_first_token_is_the_first_text():
    found = read(said(None, role="assistant"), said(""), ": ping", said("a"), said("b"), END, "data: [DONE]")
    assert (found.first, found.last, found.pieces, found.ended) == (4.0, 5.0, 2, True)


def test_an_answer_without_text_has_its_end_as_its_first_token():
    found = read(said(""), END, "data: [DONE]")
    assert (found.first, found.last, found.pieces) == (2.0, None, 0)


def test_an_answer_that_does_not_say_its_end_has_not_ended():
    assert not read(said("a")).ended
    assert read(said("a"), END).ended
    assert read(said("a"), "data: [DONE]").ended


def test_the_numbers_of_tokens_are_those_of_the_server():
    usage = {"prompt_tokens": 300, "completion_tokens": 16, "prompt_tokens_details": {"cached_tokens": 256}}
    found = read(said("a"), END, {"choices": [], "usage": usage})
    assert (found.prompt_tokens, found.output_tokens, found.cached_tokens) == (300, 16, 256)
    assert read({"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -1}}).prompt_tokens is None


@pytest.mark.parametrize("event", ["data: {", "data: " + "[" * 5000, 'data: {"error": {"message": "oh"}}'])
def test_what_is_wrong_is_an_error(event):
    assert read(event).error


@pytest.mark.parametrize("event", ["data: []", "data: 3", {"choices": []}, {"choices": [3]}, {"usage": 3}, "event: x"])
def test_odd_events_say_nothing(event):
    assert read(event) == Stream()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"error": {"message": "a\nb"}}, "a b"),
        ({"error": "text"}, "text"),
        ({"message": "text"}, "text"),
        ({"detail": "text"}, "text"),
        ({"detail": [{"msg": "text"}]}, "text"),
        ({"detail": []}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_message_of_an_error_is_found(answer, message):
    assert message_of(answer) == message
