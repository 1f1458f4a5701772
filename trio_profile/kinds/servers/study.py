"""An EndpointStudy says which servers are asked, and under which loads."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from trio_profile.records.option import INPUT, SAMPLING, SERVER, Option
from trio_profile.records.record import Record

Loop = Literal["closed", "open"]
"""How requests are sent. closed: a fixed number of requests is always under way. open: requests arrive at a rate, and
do not wait for each other."""
MOST_AT_ONCE = 1024
"""The most requests that the client has under way."""


class Load(Record):
    """How much is asked of a server at a time.

    value: closed: the number of requests under way (the concurrency). open: requests per second.
    """

    loop: Loop
    value: Annotated[float, Field(gt=0)]

    @property
    def at_once(self) -> int:
        """The number of requests under way; 1 for a rate, where it is not known beforehand."""
        return int(self.value) if self.loop == "closed" else 1

    @property
    def name(self) -> str:
        """The load in words: `concurrency 8`, `2.5 requests a second`."""
        return f"concurrency {self.value:g}" if self.loop == "closed" else f"{self.value:g} requests a second"


class EndpointStudy(Record):
    """What to measure: a dense server and a pruned one, under several loads.

    The help of its option says what a field means. Beyond that:

    pruned: None if one server does both.
    concurrency: None: 1 to 32 if there is no rate.
    segment_seconds: a closed loop then waits for answers under way.
    prompt: None: with drawn pictures a question about each one, otherwise "Describe the picture."
    seed: with the id of the session it is also the seed of the drawn pictures.
    """

    verb: Literal["endpoints"] = "endpoints"
    dense: Annotated[
        str, Option(SERVER, "Address of the dense server, such as http://localhost:8000.", metavar="URL", basic=True)
    ] = ""
    pruned: Annotated[
        str | None,
        Option(
            SERVER,
            "Address of the pruned server.",
            default="the dense one, with --pruned-body",
            metavar="URL",
            basic=True,
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(SERVER, "The name of the model, as both servers know it.", default="the only one that they list"),
    ] = None
    body: Annotated[
        str | None, Option(SERVER, "Further fields of every request, as a JSON object.", metavar="JSON")
    ] = None
    pruned_body: Annotated[
        str | None,
        Option(SERVER, "Further fields of every request with pruning, as a JSON object.", metavar="JSON", basic=True),
    ] = None
    concurrency: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MOST_AT_ONCE)], ...] | None,
        Option(
            SAMPLING,
            "Comma list of loads: how many requests are always under way (closed loop).",
            form="list",
            default="1,2,4,8,16,32 without --rate",
            metavar="LOADS",
            basic=True,
        ),
    ] = None
    rates: Annotated[
        tuple[Annotated[float, Field(gt=0, le=10_000)], ...],
        Option(
            SAMPLING,
            "Comma list of loads: how many requests arrive per second, at random times (open loop).",
            ("--rate",),
            form="list",
            metavar="LOADS",
            basic=True,
        ),
    ] = ()
    rounds: Annotated[
        int,
        Field(ge=2, le=100),
        Option(SAMPLING, "How often each load is measured, dense and pruned. The intervals are over the rounds."),
    ] = 4
    requests: Annotated[
        int,
        Field(ge=4, le=100_000),
        Option(SAMPLING, "Measured requests of a segment; at least 4 for each one that is under way."),
    ] = 100
    segment_seconds: Annotated[
        float,
        Field(gt=0, le=100_000),
        Option(SAMPLING, "Warm up for at most this many seconds, and measure for as many.", ("--seconds",), basic=True),
    ] = 60.0
    timeout_seconds: Annotated[
        float,
        Field(gt=0, le=100_000),
        Option(SAMPLING, "A request that takes longer than this many seconds has failed.", ("--timeout",)),
    ] = 120.0
    new_tokens: Annotated[int, Field(ge=1, le=100_000), Option(INPUT, "The most tokens of an answer.")] = 16
    pictures: Annotated[
        str | None,
        Option(
            INPUT,
            "A directory of pictures. Each use cuts a picture out at another place, so that no two requests are alike.",
            form="path",
            default="drawn pictures",
            basic=True,
        ),
    ] = None
    frames: Annotated[
        int,
        Field(ge=1, le=1000),
        Option(
            INPUT,
            "Show videos of this many frames instead of pictures, as vLLM takes them (video_url). Each frame is the "
            "picture, moved by one pixel. 1 is a picture.",
        ),
    ] = 1
    prompt: Annotated[str | None, Option(INPUT, "The question about each picture.")] = None
    ttft_limit_ms: Annotated[
        Annotated[float, Field(gt=0)] | None,
        Option(SAMPLING, "Count a request for the goodput if its first token comes within this many milliseconds."),
    ] = None
    check_cache: Annotated[
        bool,
        Option(SAMPLING, "Also compare one repeated picture with distinct pictures, to see whether a cache answers."),
    ] = False
    key_variable: Annotated[
        str | None,
        Option(
            SERVER, "The environment variable that holds the key of the servers. The key is not kept.", metavar="NAME"
        ),
    ] = None
    seed: Annotated[
        int, Field(ge=0, lt=2**63), Option(SAMPLING, "Seed of the arrivals, of all orders and of the drawn pictures.")
    ] = 0

    @property
    def loads(self) -> tuple[Load, ...]:
        """The loads in ascending order: first those of the closed loop, then those of the open loop."""
        closed = [Load(loop="closed", value=value) for value in sorted(set(self.concurrency or ()))]
        return (*closed, *(Load(loop="open", value=value) for value in sorted(set(self.rates))))

    @property
    def pairs(self) -> int:
        """The number of pairs of segments. A test of the cache has one pair for each arm in a round."""
        return self.rounds * (len(self.loads) + (2 if self.check_cache else 0))


def base_of(url: str) -> str:
    """Return the address below which the endpoints are: `http://host:8000` → `http://host:8000/v1`."""
    url = url.rstrip("/")
    return url if re.search(r"/v\d+$", url) else f"{url}/v1"


def is_same(first: str, second: str) -> bool:
    """Return whether two addresses name the same endpoints. Host names are not looked up."""
    one, other = (
        (url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme), url.path)
        for url in map(urlsplit, map(base_of, (first, second)))
    )
    return one == other
