"""The study of two servers: which servers are asked, and under which loads."""

import re
from typing import Annotated, Literal

from pydantic import Field

from trio_profile.records.option import INPUT, SAMPLING, SERVER, option
from trio_profile.records.record import Record
from trio_profile.records.study import Match, match_option

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
    """A dense server and a pruned one, under several loads.

    The help of its option says what a field means. Beyond that:

    pruned: None if one server does both.
    concurrency: None: 1 to 32 if there is no rate.
    segment_seconds: a closed loop then waits for answers under way.
    prompt: None: with drawn pictures a question about each one, otherwise "Describe the picture."
    seed: with the id of the session it is also the seed of the drawn pictures.
    """

    verb: Literal["endpoints"] = "endpoints"
    dense: str = option(
        "", SERVER, "Address of the dense server, such as http://localhost:8000.", metavar="URL", basic=True
    )
    pruned: str | None = option(
        None,
        SERVER,
        "Address of the pruned server.",
        default_help="the dense one, with --pruned-body",
        metavar="URL",
        basic=True,
    )
    model: str | None = option(
        None, SERVER, "The name of the model, as both servers know it.", default_help="the only one that they list"
    )
    body: str | None = option(None, SERVER, "Further fields of every request, as a JSON object.", metavar="JSON")
    pruned_body: str | None = option(
        None, SERVER, "Further fields of every request with pruning, as a JSON object.", metavar="JSON", basic=True
    )
    concurrency: tuple[Annotated[int, Field(ge=1, le=MOST_AT_ONCE)], ...] | None = option(
        None,
        SAMPLING,
        "Comma list of loads: how many requests are always under way (closed loop).",
        form="list",
        default_help="1,2,4,8,16,32 without --rate",
        metavar="LOADS",
        basic=True,
    )
    rates: tuple[Annotated[float, Field(gt=0, le=10_000)], ...] = option(
        (),
        SAMPLING,
        "Comma list of loads: how many requests arrive per second, at random times (open loop).",
        flags=("--rate",),
        form="list",
        metavar="LOADS",
        basic=True,
    )
    rounds: int = option(
        4,
        SAMPLING,
        "How often each load is measured, dense and pruned. The intervals are over the rounds.",
        ge=2,
        le=100,
    )
    session_rounds: Annotated[int, Field(ge=1, le=100)] | None = option(
        None,
        SAMPLING,
        "End after so many rounds. Start the servers anew, and give the same command again: then the intervals hold "
        "what differs between starts.",
        default_help="all rounds",
    )
    requests: int = option(
        100, SAMPLING, "Measured requests of a segment; at least 4 for each one that is under way.", ge=4, le=100_000
    )
    segment_seconds: float = option(
        60.0,
        SAMPLING,
        "Warm up for at most this many seconds, and measure for as many.",
        flags=("--seconds",),
        basic=True,
        gt=0,
        le=100_000,
    )
    timeout_seconds: float = option(
        120.0,
        SAMPLING,
        "A request that takes longer than this many seconds has failed.",
        flags=("--timeout",),
        gt=0,
        le=100_000,
    )
    new_tokens: int = option(16, INPUT, "The most tokens of an answer.", ge=1, le=100_000)
    pictures: str | None = option(
        None,
        INPUT,
        "A directory of pictures. Each use cuts a picture out at another place, so that no two requests are alike.",
        form="path",
        default_help="drawn pictures",
        basic=True,
    )
    frames: int = option(
        1,
        INPUT,
        "Show videos of this many frames instead of pictures, as vLLM takes them (video_url). Each frame is the "
        "picture, moved by one pixel. 1 is a picture.",
        ge=1,
        le=1000,
    )
    prompt: str | None = option(None, INPUT, "The question about each picture.")
    questions: str | None = option(
        None,
        INPUT,
        "A file of questions with answers, as JSON Lines: image, question, answer, kind, scene, match. Both servers "
        "answer them before the loads, and the right answers are compared.",
        form="path",
        metavar="FILE",
        basic=True,
    )
    asked: Annotated[int, Field(ge=1, le=10_000)] | None = option(
        None,
        INPUT,
        "How many questions both servers answer: the first ones of the file, or else of the model pocket.",
        default_help="all questions of a file, otherwise none",
    )
    match: Match = match_option()
    ttft_limit_ms: Annotated[float, Field(gt=0)] | None = option(
        None, SAMPLING, "Count a request for the goodput if its first token comes within this many milliseconds."
    )
    key_variable: str | None = option(
        None, SERVER, "The environment variable that holds the key of the servers. The key is not kept.", metavar="NAME"
    )
    seed: int = option(0, SAMPLING, "Seed of the arrivals, of all orders and of the drawn pictures.", ge=0, lt=2**63)

    @property
    def question_files(self) -> tuple[str, ...]:
        """The files of questions."""
        return () if self.questions is None else (self.questions,)

    @property
    def loads(self) -> tuple[Load, ...]:
        """The loads in ascending order: first those of the closed loop, then those of the open loop."""
        closed = [Load(loop="closed", value=value) for value in sorted(set(self.concurrency or ()))]
        return (*closed, *(Load(loop="open", value=value) for value in sorted(set(self.rates))))

    @property
    def pairs(self) -> int:
        """The number of pairs of segments."""
        return self.rounds * len(self.loads)


def base_of(url: str) -> str:
    """Return the address below which the endpoints are: `http://host:8000` → `http://host:8000/v1`."""
    url = url.rstrip("/")
    return url if re.search(r"/v\d+$", url) else f"{url}/v1"
