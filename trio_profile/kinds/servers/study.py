"""An EndpointStudy says which servers are asked, and under which loads."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

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

    verb: always `endpoints`.
    dense, pruned: base addresses of the two servers. pruned is None if one server does both.
    model: name of the model, as both servers know it. None: the only model that they list.
    body, pruned_body: further fields of each request, and of each request with pruning, as the text of a JSON object.
    concurrency: the loads of the closed loop: how many requests are under way. None: 1 to 32 if there is no rate.
    rates: the loads of the open loop: requests per second.
    rounds: how often each load is measured, dense and pruned.
    requests: measured requests of one segment. A segment of a closed loop has at least 4 for each request under way.
    segment_seconds: the longest time of a warm-up, and of a measured part. A closed loop then waits for answers under
        way.
    timeout_seconds: a request that takes longer has failed.
    new_tokens: the most tokens that an answer may have.
    pictures: a directory of pictures. None: drawn pictures.
    frames: 1: each request shows a picture. More: it shows a video of so many frames, which is a picture that moves by
        one pixel from frame to frame.
    prompt: the question about each picture. None: with drawn pictures a question about each one, otherwise "Describe
        the picture."
    ttft_limit_ms: a request counts for the goodput if its first token comes within this time. None: no goodput.
    check_cache: whether one repeated picture is compared with distinct pictures.
    key_variable: the environment variable that holds the key of the servers. The key itself is never stored.
    seed: seed of the arrivals and of all orders. With the id of the session it is also the seed of the drawn pictures.
    """

    verb: Literal["endpoints"] = "endpoints"
    dense: str = ""
    pruned: str | None = None
    model: str | None = None
    body: str | None = None
    pruned_body: str | None = None
    concurrency: tuple[Annotated[int, Field(ge=1, le=MOST_AT_ONCE)], ...] | None = None
    rates: tuple[Annotated[float, Field(gt=0, le=10_000)], ...] = ()
    rounds: Annotated[int, Field(ge=2, le=100)] = 4
    requests: Annotated[int, Field(ge=4, le=100_000)] = 100
    segment_seconds: Annotated[float, Field(gt=0, le=100_000)] = 60.0
    timeout_seconds: Annotated[float, Field(gt=0, le=100_000)] = 120.0
    new_tokens: Annotated[int, Field(ge=1, le=100_000)] = 16
    pictures: str | None = None
    frames: Annotated[int, Field(ge=1, le=1000)] = 1
    prompt: str | None = None
    ttft_limit_ms: Annotated[float, Field(gt=0)] | None = None
    check_cache: bool = False
    key_variable: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

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
