"""A corpus of streams as servers and proxies send them, each with its outcome.

WHOLE     streams of whole answers: name → bytes, and the text, the pieces and the tokens (prompt, output, cached)
FAILED    streams of answers that did not end well: name → bytes, and words of the failure
ODD       whole answers with numbers of tokens that cannot be: name → events with usage, and the doubt
REPLIES   answers that are no stream: name → status, kind of content, bytes, and words of the failure
"""

import gzip
import json
from typing import Any

DONE = b"data: [DONE]\n\n"
ASKED = 16
"""The most tokens that every stream of this corpus was asked for."""


def event(*, ascii: bool = True, **fields: Any) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=ascii)}\n\n".encode()


def choice(finish: Any = None, *, delta: Any = None, **fields: Any) -> bytes:
    """A chunk. delta: its text, or all of it."""
    delta = {"content": delta} if isinstance(delta, str) else delta or {}
    one = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return event(id="1", object="chat.completion.chunk", created=1, model="m", choices=[one], **fields)


def usage(prompt: Any = 600, output: Any = 2, **fields: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": output, **fields}


def counted(prompt: Any = 600, output: Any = 2, **fields: Any) -> bytes:
    """The chunk with usage alone."""
    return event(choices=[], usage=usage(prompt, output, **fields))


ROLE = choice(delta={"role": "assistant", "content": ""})
ONE, TWO = choice(delta="one "), choice(delta="two")
STOP = choice("stop")
TEXT = ROLE + ONE + TWO
END = STOP + counted() + DONE
ALL = TEXT + END
JSON_ERROR = b'{"error": {"message": "CUDA out of memory", "type": "server_error", "code": 500}}'
NGINX = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
)

Outcome = tuple[str, int, tuple[int | None, int | None, int | None]]
PLAIN: Outcome = ("one two", 2, (600, 2, None))
UNCOUNTED: Outcome = ("one two", 2, (None, None, None))
CONTINUOUS = (
    choice(delta={"role": "assistant", "content": ""}, usage=usage(600, 0))
    + choice(delta="one ", usage=usage(600, 1))
    + choice(delta="two", usage=usage(600, 2))
    + choice("stop", usage=usage(600, 3))
)

WHOLE: dict[str, tuple[bytes, Outcome]] = {
    # --- OpenAI and vLLM
    "openai": (ALL, PLAIN),
    "openai, with obfuscation and service tier": (
        ROLE
        + choice(delta="one ", obfuscation="x9", service_tier="default", usage=None)
        + choice(delta={"content": "two", "refusal": None}, obfuscation="", usage=None)
        + STOP
        + counted(prompt_tokens_details={"cached_tokens": 512, "audio_tokens": 0})
        + DONE,
        ("one two", 2, (600, 2, 512)),
    ),
    "openai, hidden reasoning": (
        TEXT + choice("length") + counted(600, 12, completion_tokens_details={"reasoning_tokens": 10}) + DONE,
        ("one two", 2, (600, 12, None)),
    ),
    "azure, a filter's results first": (
        event(id="", choices=[], prompt_filter_results=[{"prompt_index": 0}]) + ALL,
        PLAIN,
    ),
    "vllm, usage in every chunk": (CONTINUOUS + counted(600, 3) + DONE, ("one two", 2, (600, 3, None))),
    "vllm, the last token ends the answer": (choice(delta="7") + END, ("7", 1, (600, 2, None))),
    "vllm, several tokens in one piece": (
        choice(delta="one two three four") + choice("length") + counted(600, 4) + DONE,
        ("one two three four", 1, (600, 4, None)),
    ),
    "vllm, reasoning": (
        choice(delta={"reasoning": "hm", "reasoning_content": "hm"}) + TEXT + STOP + counted(600, 4) + DONE,
        ("one two", 3, (600, 4, None)),
    ),
    "text and finish_reason in one chunk": (ONE + choice("stop", delta="two") + counted() + DONE, PLAIN),
    "finish_reason and usage in one chunk": (TEXT + choice("stop", usage=usage()) + DONE, PLAIN),
    "no usage": (TEXT + STOP + DONE, UNCOUNTED),
    "no [DONE], as `trio-profile serve` ends": (TEXT + STOP + counted(), PLAIN),
    "an empty error in every chunk": (
        choice(delta="one ", error=None) + choice(delta="two", error={"message": "", "code": None}) + STOP + DONE,
        UNCOUNTED,
    ),
    # --- other engines
    "tensorrt-llm": (
        choice(delta={"role": "assistant", "content": "", "reasoning_content": None})
        + choice(delta="one ", disaggregated_params=None)
        + choice("stop", delta="two", stop_reason="<end>")
        + counted(600, 2, prompt_tokens_details={"cached_tokens": 0})
        + DONE,
        ("one two", 2, (600, 2, 0)),
    ),
    "tgi": (
        (ONE + TWO + choice("eos_token", delta="", usage=None) + counted()).replace(b"data: ", b"data:")
        + b"data: [DONE]\n\n",
        PLAIN,
    ),
    "llama.cpp, progress of the prompt": (
        choice(delta={"role": "assistant", "content": None}, prompt_progress={"total": 600, "processed": 512})
        + ONE
        + TWO
        + STOP
        + event(choices=[], usage=usage(), timings={"prompt_n": 600, "predicted_per_second": 31.4})
        + DONE,
        PLAIN,
    ),
    "lmdeploy, finish_reason is empty before the end": (
        choice("", delta="one ") + choice("", delta="two") + END,
        PLAIN,
    ),
    "ollama": (choice(delta="one ", system_fingerprint="fp_ollama") + TWO + choice("length") + counted() + DONE, PLAIN),
    "a proxy of Anthropic": (TEXT + choice("end_turn") + counted() + DONE, PLAIN),
    "a proxy of Cohere, in capitals": (TEXT + choice("COMPLETE") + counted() + DONE, PLAIN),
    "finish_reason is the text null before the end": (choice("null", delta="one ") + TWO + STOP + DONE, UNCOUNTED),
    "the text of plain completions": (
        event(choices=[{"index": 0, "text": "one "}])
        + event(choices=[{"index": 0, "text": "two", "finish_reason": "stop"}], usage=usage())
        + DONE,
        PLAIN,
    ),
    "a whole message in one event": (
        event(choices=[{"message": {"content": "one two"}, "finish_reason": "stop"}], usage=usage()) + DONE,
        ("one two", 1, (600, 2, None)),
    ),
    "usage without choices": (TEXT + STOP + event(usage=usage()) + DONE, PLAIN),
    "usage with choices: null, as Go writes no list": (TEXT + STOP + event(choices=None, usage=usage()) + DONE, PLAIN),
    "usage of zeros before the answer": (choice(delta={"role": "assistant"}, usage=usage(0, 0)) + TEXT + END, PLAIN),
    "output tokens that were reported before the end": (
        choice(delta="one ", usage=usage(600, 1)) + TWO + STOP + DONE,
        ("one two", 2, (600, None, None)),
    ),
    "NaN among the probabilities": (
        ONE
        + b'data: {"choices": [{"delta": {"content": "two"}, "logprobs": {"content": [NaN, -Infinity]}}]}\n\n'
        + STOP,
        UNCOUNTED,
    ),
    # --- the form of the events
    "keep-alive comments": (
        b": ping\n\n" + ROLE + b":\n\n" + ONE + b": OPENROUTER PROCESSING\n\n" + TWO + STOP + DONE,
        UNCOUNTED,
    ),
    "keep-alive without data": (b"data:\n\n" + ONE + b"data: \n\n" + TWO + STOP + DONE, UNCOUNTED),
    "keep-alive events": (
        b'event: ping\ndata: {"type": "ping"}\n\n' + TEXT + b"event: ping\n\n" + STOP + DONE,
        UNCOUNTED,
    ),
    "named events, with id and retry": (
        b"retry: 3000\n\n" + TEXT.replace(b"data:", b"id: 7\nevent: message\ndata:") + STOP + b"event: done\n" + DONE,
        UNCOUNTED,
    ),
    "metrics of Dynamo": (TEXT + b'event: llm_metrics\n: {"output_tokens": 2}\n\n' + STOP + DONE, UNCOUNTED),
    "CRLF": (ALL.replace(b"\n", b"\r\n"), PLAIN),
    "CR": (ALL.replace(b"\n", b"\r"), PLAIN),
    "a byte order mark": (b"\xef\xbb\xbf" + ALL, PLAIN),
    "an event in several lines": (
        TEXT
        + b'data: {"choices": [\ndata: {"index": 0, "delta": {},\ndata: "finish_reason": "stop"}\ndata: ]}\n\n'
        + DONE,
        UNCOUNTED,
    ),
    "no empty line between events": (ALL.replace(b"\n\n", b"\n"), PLAIN),
    "no line feed at the end": (ALL[:-2], PLAIN),
    "no space after the colon": (ALL.replace(b"data: ", b"data:"), PLAIN),
    "characters of several bytes": (
        choice(delta="鳥が", ascii=False) + choice(delta="飛ぶ🦜", ascii=False) + STOP + counted(600, 5) + DONE,
        ("鳥が飛ぶ🦜", 2, (600, 5, None)),
    ),
    "half a character in each chunk": (
        choice(delta="\ud83e") + choice(delta="\udd9c") + STOP,
        ("🦜", 2, (None, None, None)),
    ),
    "a line separator of Unicode in the text": (
        'data: {"choices": [{"delta": {"content": "a\u2028b"}}]}\n\n'.encode() + STOP + DONE,
        ("a\u2028b", 1, (None, None, None)),
    ),
}

CLOSED = "it closed the stream before the end of its answer"
NO_REASON = "it sent [DONE] without a finish_reason, so its answer was broken off"
NO_TEXT = "its answer has no text"
SAYS = "it says in its stream: CUDA out of memory"


def said(**fields: Any) -> bytes:
    """An answer that an event with these fields breaks off."""
    return TEXT + event(**fields) + DONE


FAILED: dict[str, tuple[bytes, str]] = {
    # --- the end is missing
    "nothing": (b"", CLOSED),
    "[DONE] alone": (DONE, NO_REASON),
    "keep-alive comments alone": (b": ping\n\n: ping\n\n", CLOSED),
    "role alone": (ROLE, CLOSED),
    "role and [DONE]": (ROLE + DONE, NO_REASON),
    "[DONE] without finish_reason": (TEXT + DONE, NO_REASON),
    "[DONE] without finish_reason, after usage": (TEXT + counted() + DONE, NO_REASON),
    "the stream closes after text": (TEXT, CLOSED),
    "the stream closes after usage": (TEXT + counted(), CLOSED),
    "the stream closes within an event": (TEXT + STOP[:40], CLOSED),
    "finish_reason stays empty text": (choice("", delta="one ") + choice("") + DONE, NO_REASON),
    "finish_reason stays not_finished": (choice("not_finished", delta="one ") + DONE, NO_REASON),
    "finish_reason is an empty object": (ONE + choice({}) + DONE, NO_REASON),
    # --- there is no answer
    "usage alone": (counted() + DONE, NO_REASON),
    "usage alone, closed": (event(usage=usage()), CLOSED),
    "a finish_reason without text": (ROLE + STOP + counted(600, 0) + DONE, NO_TEXT),
    "empty pieces": (ROLE + choice(delta="") + choice("stop", delta="") + DONE, NO_TEXT),
    "text: null": (choice(delta={"content": None}) + STOP + DONE, NO_TEXT),
    # --- the finish_reason says it
    **{
        f"finish_reason {reason}": (
            TEXT + choice(reason) + counted() + DONE,
            f"it broke off its answer (finish_reason {name})",
        )
        for reason, name in (
            *((same, same) for same in ("error", "abort", "aborted", "cancelled", "timeout", "content_filter")),
            *(("SAFETY", "safety"), ("network_error", "network_error"), ("repetition", "repetition")),
            ("insufficient_system_resource", "insufficient_system_resource"),
            *((7, "7"), (True, "true"), (["stop"], "{…}")),
            ({"type": "abort", "message": "out of memory"}, "abort: out of memory"),
        )
    },
    "abort with text in its chunk": (ONE + choice("abort", delta="two") + DONE, "(finish_reason abort)"),
    "abort, then stop": (ONE + choice("abort") + STOP + DONE, "(finish_reason abort)"),
    # --- an event is an error
    "fastchat": (said(text="CUDA out of memory", error_code=50002), SAYS),
    "vllm, sglang, lmdeploy: object error": (said(object="error", message="CUDA out of memory", code=400), SAYS),
    "trio-profile serve, tgi: text": (said(error="CUDA out of memory", error_type="generation"), SAYS),
    "error true with a message": (said(error=True, message="CUDA out of memory"), SAYS),
    "error with a code alone": (said(error={"code": 500}), 'it says in its stream: {"error": {"code": 500}}'),
    "errors": (said(errors=[{"message": "CUDA out of memory"}]), SAYS),
    "message": (said(message="CUDA out of memory"), SAYS),
    "detail": (said(detail="CUDA out of memory"), SAYS),
    "detail in a list": (said(detail=[{"loc": ["body"], "msg": "CUDA out of memory"}]), SAYS),
    "anthropic": (said(type="error", error={"type": "overloaded_error", "message": "CUDA out of memory"}), SAYS),
    "a status": (said(status=503, title="CUDA out of memory"), SAYS),
    "a status beside choices": (said(choices=[], status_code=503, message="CUDA out of memory"), SAYS),
    "a code as text beside choices": (said(choices=[], code="429", message="CUDA out of memory"), SAYS),
    "openrouter: error beside choices": (
        TEXT + choice("error", error={"code": 502, "message": "CUDA out of memory"}) + DONE,
        SAYS,
    ),
    "error beside usage": (said(usage=usage(), error="CUDA out of memory"), SAYS),
    "error in a choice": (said(choices=[{"index": 0, "delta": {}, "error": {"message": "CUDA out of memory"}}]), SAYS),
    "a refusal": (TEXT + choice(delta={"refusal": "I will not."}) + STOP + DONE, "it says in its stream: I will not."),
    "an error after the end": (TEXT + STOP + event(error="CUDA out of memory"), SAYS),
    "an error before any text": (event(error="CUDA out of memory") + DONE, SAYS),
    "neither choices nor usage": (said(foo=1), 'it says in its stream: {"foo": 1}'),
    "an empty object": (said(), "it says in its stream: {}"),
    "choices: null": (said(choices=None), 'it says in its stream: {"choices": null}'),
    "usage is no object": (said(usage=3), 'it says in its stream: {"usage": 3}'),
    "a choice is no object": (said(choices=[3]), 'it says in its stream: {"choices": [3]}'),
    "an event is a list": (TEXT + b"data: []\n\n" + DONE, "it says in its stream: []"),
    "an event is a number": (TEXT + b"data: 3\n\n" + DONE, "it says in its stream: 3"),
    "an event is a text": (TEXT + b'data: "CUDA out of memory"\n\n' + DONE, SAYS),
    "an event is null": (TEXT + b"data: null\n\n" + DONE, "an event of its stream is not JSON: 'null'"),
    "an event is words": (TEXT + b"data: CUDA out of memory\n\n" + DONE, "not JSON: 'CUDA out of memory'"),
    "an event is HTML": (TEXT + b"data: <b>502 Bad</b> Gateway\n\n", "not JSON: '502 Bad Gateway'"),
    "half an object": (TEXT + b'data: {"choices": \n\n' + DONE, "an event of its stream is not JSON"),
    "deep nesting": (TEXT + b"data: " + b"[" * 50_000 + b"\n\n", "an event of its stream is not JSON"),
    "deep nesting in a field": (
        TEXT + b'data: {"error": ' + b'{"a":' * 400 + b"1" + b"}" * 401 + b"\n\n",
        "it says in its stream",
    ),
    # --- named events and other fields
    "event: error": (TEXT + b"event: error\ndata: CUDA out of memory\n\n" + DONE, SAYS),
    "event: error, an object": (TEXT + b"event: error\n" + event(message="CUDA out of memory") + DONE, SAYS),
    "event after the data": (
        TEXT + b'data: {"choices": []}\nevent: error\n\n' + DONE,
        'in its stream: {"choices": []}',
    ),
    "dynamo: event: error with a comment": (TEXT + b"event: error\n: CUDA out of memory\n\n" + DONE, SAYS),
    "event: error alone": (TEXT + b"event: error\n\n" + DONE, "it says in its stream: an error without a message"),
    "event: Server_Error": (TEXT + b"event: Server_Error\ndata: CUDA out of memory\n\n", SAYS),
    "an error in an event with another name": (TEXT + b"event: end\n" + event(error="CUDA out of memory") + DONE, SAYS),
    "llama.cpp: a field error": (TEXT + b'error: {"code": 500, "message": "CUDA out of memory"}\n\n', SAYS),
    "an event without a line feed": (TEXT + event(error="CUDA out of memory")[:-2], SAYS),
    "words without a line feed": (TEXT + b"data: CUDA out of memory", "not JSON: 'CUDA out of memory'"),
    "openvino: JSON without data": (TEXT + JSON_ERROR + b"\n\n", f"{CLOSED}; it also sent: CUDA out"),
    "JSON without data, in several lines": (
        b'{\n  "error": {\n    "message": "CUDA out of memory"\n  }\n}\n',
        f"{CLOSED}; it also sent: CUDA out",
    ),
    "words without data": (TEXT + b"Traceback: CUDA out of memory\n", f"{CLOSED}; it also sent: Traceback"),
    "HTML of a proxy within the stream": (TEXT + NGINX, f"{CLOSED}; it also sent: 502 Bad Gateway"),
    "a named event": (
        TEXT + b'event: fatal\ndata: {"text": "CUDA out of memory"}\n\n' + DONE,
        f"{NO_REASON}; it also sent: CUDA out",
    ),
    "chunks as JSON lines": (ALL.replace(b"data: ", b""), f"{CLOSED}; it also sent: "),
}

ODD: dict[str, tuple[bytes, str]] = {
    name: (
        TEXT
        + (choice("length") if limited else STOP)
        + b"".join(event(choices=[], usage=one) for one in reported)
        + DONE,
        doubt,
    )
    for name, limited, reported, doubt in (
        ("more than asked for", True, [usage(600, 40)], "40 output tokens, where 16 were asked for"),
        ("one more than asked for", True, [usage(600, 17)], "17 output tokens, where 16 were asked for"),
        ("more than bytes", True, [usage(600, 8)], "8 output tokens in a text of 7 bytes"),
        ("more than bytes and an end", False, [usage(600, 9)], "9 output tokens in a text of 7 bytes"),
        ("none", False, [usage(600, 0)], "0 output tokens in a text of 7 bytes"),
        ("10^15", False, [usage(10**15, 10**15)], "1000000000000000 prompt tokens; 1000000000000000 output tokens"),
        ("2^64 - 1, as C++ writes -1", False, [usage(600, 2**64 - 1)], "18446744073709551615 output tokens"),
        ("10^300", False, [usage(10**300, 2)], f"1{'0' * 39} prompt tokens"),
        ("negative", False, [usage(-600, -2)], "-600 prompt tokens; -2 output tokens"),
        ("a fraction", False, [usage(600.5, 2.5)], "600.5 prompt tokens; 2.5 output tokens"),
        ("a number with a point", False, [usage(600, 2.0)], "2.0 output tokens"),
        ("a boolean", False, [usage(True, True)], "True prompt tokens; True output tokens"),
        ("a text", False, [usage("600", "two")], "'600' prompt tokens; 'two' output tokens"),
        ("a list", False, [usage([600], {})], "{…} prompt tokens; {…} output tokens"),
        ("output tokens that fall", False, [usage(600, 3), usage(600, 2)], "output tokens that fall from 3 to 2"),
        ("a prompt that falls", False, [usage(600, 2), usage(150, 2)], "prompt tokens that fall from 600 to 150"),
        (
            "fall to zero",
            False,
            [usage(600, 2), usage(0, 0)],
            "prompt tokens that fall from 600 to 0; output tokens that",
        ),
        ("no prompt", False, [usage(0, 2)], "0 prompt tokens"),
        ("odd, then plain", False, [usage(600, -1), usage(600, 2)], "-1 output tokens"),
        (
            "more cached than read",
            False,
            [usage(600, 2, prompt_tokens_details={"cached_tokens": 601})],
            "601 cached tokens of 600",
        ),
        ("a negative cache", False, [usage(600, 2, prompt_tokens_details={"cached_tokens": -1})], "-1 cached tokens"),
    )
}

STREAM, JSON, GZIP = "text/event-stream", "application/json", {"content-encoding": "gzip"}
NO_STREAM = "it does not stream: it answers with"
REPLIES: dict[str, tuple[int, dict[str, str], bytes, str]] = {
    name: (status, {"content-type": kind, **headers}, body, words)
    for name, status, kind, headers, body, words in (
        ("nginx", 502, "text/html", {}, NGINX, "HTTP 502: 502 Bad Gateway 502 Bad Gateway"),
        ("HTML with status 200", 200, "text/html", {}, NGINX, f"{NO_STREAM} text/html: 502 Bad Gateway"),
        ("an error with status 200", 200, JSON, {}, JSON_ERROR, "with application/json: CUDA out of memory"),
        ("an error with status 500", 500, JSON, {}, JSON_ERROR, "HTTP 500: CUDA out of memory"),
        ("an error as a stream", 503, STREAM, {}, b"data: " + JSON_ERROR + b"\n\n", "HTTP 503: "),
        ("a whole answer", 200, JSON, {}, b'{"choices": []}', f"{NO_STREAM} application/json"),
        ("JSON lines of Ollama", 200, "application/x-ndjson", {}, b'{"error": "no model"}\n', "ndjson: no model"),
        ("nothing", 204, "", {}, b"", "it does not stream"),
        ("gzip", 200, STREAM, GZIP, gzip.compress(ALL), ""),
        ("gzip that is none", 200, STREAM, GZIP, ALL, "its answer cannot be decompressed"),
        ("gzip that is cut off", 200, STREAM, GZIP, gzip.compress(ALL)[:60], CLOSED),
        ("brotli that is not asked for", 200, STREAM, {"content-encoding": "br"}, b"\x8b\x02\x80", CLOSED),
        ("in capitals, with a character set", 200, "Text/Event-Stream; charset=UTF-8", {}, ALL, ""),
    )
}
"""The words are empty if the answer is whole."""
