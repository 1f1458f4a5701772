"""Segments of servers and a document of `endpoints`, made by hand, and a kept study of the kind."""

from collections.abc import Callable
from itertools import product
from typing import Any

from tests.profile import examples
from tests.profile.kinds.servers.fake_servers import study
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.requests import ARMS, Arm, Request, RequestLog, Segment, ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy, Load
from trio_profile.kinds.servers.summary import document_of
from trio_profile.records.documents import write_document


def segment_with(
    asked: EndpointStudy, number: int, arm: Arm, load: Load, rate: float, *, round: int = 0, **fields: Any
) -> tuple[Segment, list[Request]]:
    """A segment that answers `rate` requests per second, with twenty measured requests.

    fields: of its requests, or of the segment.
    """
    given = {name: fields.pop(name) for name in Request.model_fields if name in fields}
    gap = 1000 / rate
    requests = [
        Request(
            **{
                "segment": number,
                "measured": True,
                "picture": 20 * number + place,
                "due_ms": gap * place,
                "sent_ms": gap * place,
                "first_ms": gap * place + gap / 2,
                "end_ms": gap * (place + 1),
                "prompt_tokens": 74 if arm == "dense" else 26,
                "output_tokens": asked.new_tokens,
                "pieces": 4,
                "status": 200,
                **given,
            }
        )
        for place in range(20)
    ]
    asked_for = {"number": number, "arm": arm, "load": load, "round": round, "place": 0, "warm_ups": 8}
    seen = {"start_ms": 0.0, "end_ms": 20 * gap, "stopped": "requests", "steady": True}
    return Segment(**{**asked_for, **seen, **fields}), requests


def log_of(asked: EndpointStudy, rate: Callable[[Arm, Load, int], float] = lambda *_: 2.0, **fields: Any) -> RequestLog:
    """All segments of a study, as a store holds them.

    rate: requests per second of an arm under a load in a round.
    fields: of the pruned segments, or of their requests.
    """
    log = RequestLog(sessions=[examples.session()])
    for arm, tokens in (("dense", 74), ("pruned", 26)):
        log.add(ServerFacts(arm=arm, model="fake", software="fake/1", text_tokens=10, prompt_tokens=tokens))
    for number, (round, load, arm) in enumerate(product(range(asked.rounds), asked.loads, ARMS)):
        given = fields if arm == "pruned" else {}
        segment, requests = segment_with(asked, number, arm, load, rate(arm, load, round), round=round, **given)
        for record in (*requests, segment.model_copy(update={"session": examples.SESSION})):
            log.add(record)
    return log


def endpoints_document() -> EndpointsDocument:
    """Two servers at four loads and a rate, three rounds, two starts. Pruning stops paying between 4 and 8."""
    loads = {"concurrency": (1, 2, 4, 8), "rates": (3.0,), "rounds": 3, "requests": 20}
    asked = study(**loads, ttft_limit_ms=600)
    rates = {"dense": (1.0, 2.0, 3.0, 4.0, 2.5), "pruned": (2.0, 3.5, 3.8, 3.0, 2.9)}
    spreads = (0.97, 1.0, 1.04)
    log = log_of(asked, lambda arm, load, round: rates[arm][asked.loads.index(load)] * spreads[round])
    document = document_of(asked, log)
    return document.model_copy(update={"sessions": (*document.sessions, *document.sessions)})  # two starts


KEPT = {"endpoints": lambda directory: write_document(directory / "endpoints.json", endpoints_document())}
