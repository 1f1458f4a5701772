"""Segments of servers and a document of `endpoints`, made by hand, and a kept study of the kind."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.profile import examples
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.plan import prepare
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


def asked_of(asked: EndpointStudy, segments: Iterable[tuple[Segment, Sequence[Request]]]) -> RequestLog:
    """Segments as a store holds them."""
    found = RequestLog(sessions=[examples.session()])
    for arm, tokens in (("dense", 74), ("pruned", 26)):
        found.add(ServerFacts(arm=arm, model="fake", software="fake/1", text_tokens=10, prompt_tokens=tokens))
    for segment, requests in segments:
        for record in (*requests, segment.model_copy(update={"session": examples.SESSION})):
            found.add(record)
    return found


def endpoints_document() -> EndpointsDocument:
    """Two servers at four loads and a rate, three rounds, two starts. Pruning stops paying between 4 and 8."""
    servers = {"dense": "http://dense", "pruned": "http://pruned"}
    loads = {"concurrency": (1, 2, 4, 8), "rates": (3.0,), "rounds": 3, "requests": 20}
    asked = prepare(EndpointStudy(**servers, **loads, ttft_limit_ms=600))
    rates = {"dense": (1.0, 2.0, 3.0, 4.0, 2.5), "pruned": (2.0, 3.5, 3.8, 3.0, 2.9)}
    segments = [
        segment_with(asked, 10 * round + 2 * place + number, arm, load, rates[arm][place] * spread, round=round)
        for round, spread in enumerate((0.97, 1.0, 1.04))
        for place, load in enumerate(asked.loads)
        for number, arm in enumerate(ARMS)
    ]
    document = document_of(asked, asked_of(asked, segments))
    return document.model_copy(update={"sessions": (*document.sessions, *document.sessions)})  # two starts


KEPT = {"endpoints": lambda directory: write_document(directory / "endpoints.json", endpoints_document())}
