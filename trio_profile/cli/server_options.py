"""The options of `endpoints`: the servers, the pictures and the loads."""

from functools import partial
from pathlib import Path

from trio_profile.cli.option import INPUT, SAMPLING, SERVER, Option
from trio_profile.cli.values import absolute, comma_list

_server, _number, _loads = (
    partial(Option, SERVER, str),
    partial(Option, SAMPLING, float),
    partial(Option, SAMPLING, str),
)

SERVER_OPTIONS: dict[str, Option] = {
    "dense_url": _server(
        "Address of the dense server, such as http://localhost:8000.", names=("--dense",), metavar="URL"
    ),
    "pruned_url": _server(
        "Address of the pruned server.", "the dense one, with --pruned-body", names=("--pruned",), metavar="URL"
    ),
    "served_model": _server(
        "The name of the model, as both servers know it.", "the only one that they list", names=("--model",)
    ),
    "body": _server("Further fields of every request, as a JSON object.", metavar="JSON"),
    "pruned_body": _server("Further fields of every request with pruning, as a JSON object.", metavar="JSON"),
    "key_variable": _server(
        "The environment variable that holds the key of the servers. The key is not kept.", metavar="NAME"
    ),
    "picture_directory": Option(
        *(INPUT, Path),
        "A directory of pictures. Each use cuts a picture out at another place, so that no two requests are alike.",
        "drawn pictures",
        names=("--pictures",),
        read=absolute,
    ),
    "frames": Option(
        *(INPUT, int),
        "Show videos of this many frames instead of pictures, as vLLM takes them (video_url). Each frame is the "
        "picture, moved by one pixel. 1 is a picture.",
        "1",
        minimum=1,
    ),
    "concurrency": _loads(
        "Comma list of loads: how many requests are always under way (closed loop).",
        "1,2,4,8,16,32 without --rate",
        read=comma_list(int),
        metavar="LOADS",
    ),
    "rate": _loads(
        "Comma list of loads: how many requests arrive per second, at random times (open loop).",
        read=comma_list(float),
        metavar="LOADS",
    ),
    "rounds": Option(
        SAMPLING, int, "How often each load is measured, dense and pruned. The intervals are over the rounds.", "4"
    ),
    "requests": Option(
        SAMPLING, int, "Measured requests of a segment; at least 4 for each one that is under way.", "100"
    ),
    "segment_seconds": _number(
        "Warm up for at most this many seconds, and measure for as many.", "60", names=("--seconds",)
    ),
    "timeout_seconds": _number(
        "A request that takes longer than this many seconds has failed.", "120", names=("--timeout",)
    ),
    "ttft_limit_ms": _number("Count a request for the goodput if its first token comes within this many milliseconds."),
    "check_cache": Option(
        *(SAMPLING, bool),
        "Also compare one repeated picture with distinct pictures, to see whether a cache answers.",
        "--no-check-cache",
        names=("--check-cache/--no-check-cache",),
    ),
}
"""Each option by its name, in the order of the help."""
