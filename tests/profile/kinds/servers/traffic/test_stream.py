"""A stream read by hand. Its outcomes are in the corpus of `streams.py`, which test_server.py sends."""

import json

from trio_profile.kinds.servers.traffic.stream import Stream


def read(*events: object) -> Stream:
    """A stream in which an event comes each second, from second 1 on."""
    stream = Stream()
    for second, event in enumerate(events, start=1):
        stream.read(event if isinstance(event, str) else f"data: {json.dumps(event)}", float(second))
        stream.read("", second + 0.5)
    return stream


def said(text: str | None, **delta: object) -> dict:
    return {"choices": [{"delta": {"content": text, **delta}, "finish_reason": None}]}


END = {"choices": [{"delta": {}, "finish_reason": "length"}]}


def test_the_first_token_is_the_first_text():
    stream = read(said(None, role="assistant"), said(""), ": ping", said("a"), said("b"), END, "data: [DONE]")
    assert (stream.first, stream.last, stream.pieces, stream.finish) == (4.0, 5.0, 2, "length")


def test_an_event_has_the_time_at_which_its_first_line_came():
    stream = Stream()
    for second, line in enumerate(('data: {"choices": [', 'data: {"text": "a"}]}', "")):
        stream.read(line, float(second))
    assert (stream.first, stream.pieces, stream.error) == (0.0, 1, None)
    stream = Stream()
    for second, text in enumerate("abc"):  # no empty line between the events
        stream.read(f"data: {json.dumps(said(text))}", float(second))
    stream.close()
    assert (stream.first, stream.last, stream.pieces) == (0.0, 2.0, 3)


def test_an_event_of_many_lines_is_parsed_once():
    """An array that grows by a line would otherwise be parsed 300,000 times."""
    stream = Stream()
    stream.read("data: [", 0.0)
    for _ in range(300_000):
        stream.read("data: 1,", 0.0)
    stream.read("data: 1]", 0.0)
    assert str(stream.close()).startswith("it says in its stream: [ 1, 1,")


def test_what_the_server_says_of_its_engine_is_printable():
    assert read(said("a") | {"system_fingerprint": "a\ud800\nb"}).engine == "a\\ud800 b"
