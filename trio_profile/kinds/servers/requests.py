"""The append-only store `requests.jsonl` of `endpoints`: one line for each request, and one for each finished segment.

The file begins with a header, and each session adds a line, as in `measurements.jsonl` (records/schema.py). A segment
is a stretch of time in which one arm, dense or pruned, is asked under one load. Its line follows the lines of its
requests. Times are in milliseconds since the segment began.

A segment is written when it has ended, so that no disk disturbs a measurement. A killed process loses the segment that
it was measuring. Requests without the line of their segment do not count. Before each segment a line says which
pictures are used up. So an interrupted segment does not show its pictures again.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trio_profile.kinds.servers.study import EndpointStudy, Load
from trio_profile.records.files import REQUESTS
from trio_profile.records.log import ContinuedLog, LogReader, records_of
from trio_profile.records.record import FORMAT, VERSION, Record, Version, ZeroOrMore
from trio_profile.records.schema import Session
from trio_profile.records.study import Kept

Arm = Literal["dense", "pruned"]
ARMS: tuple[Arm, ...] = ("dense", "pruned")
Ms = Annotated[float, Field(ge=0)]


class RequestHeader(Record):
    """The first line of the file: the study."""

    record: Literal["header"] = "header"
    format: Literal["trio-profile"] = FORMAT
    version: Version = VERSION
    study: Kept[EndpointStudy]


class ServerFacts(Record):
    """The facts that a server reports about itself when a session begins.

    model: the model that is asked.
    software: its header `Server`; empty if it sends none.
    text_tokens: tokens of a prompt without a picture, as the server reports them; None if it does not.
    prompt_tokens: tokens of this prompt with a picture, as the server reports them; None if it does not. Both servers
        are shown the same picture.
    """

    record: Literal["server"] = "server"
    arm: Arm
    model: str
    software: str = ""
    text_tokens: ZeroOrMore | None = None
    prompt_tokens: ZeroOrMore | None = None
    session: str = ""


class PicturesUsed(Record):
    """The pictures that are used up. It is written before a segment, and counts even if the segment is interrupted.

    next: the first number that is free after the segment.
    """

    record: Literal["pictures"] = "pictures"
    next: ZeroOrMore


class ServedAnswer(Record):
    """The answer of one server to a question whose answer is known. A later answer to it replaces an earlier one.

    question: its number.
    picture: number of its picture. Questions with one number are about one picture.
    text: the answer, as far as it came.
    right: whether it is the known answer.
    known: the known answer; empty in older studies. kind: the kind of the question.
    error: why the request failed, in one line; None if it did not.
    """

    record: Literal["answer"] = "answer"
    question: ZeroOrMore
    picture: ZeroOrMore
    arm: Arm
    text: str
    right: bool
    known: str = ""
    kind: str = ""
    error: str | None = None
    session: str = ""


class Request(Record):
    """One request.

    segment: number of its segment.
    measured: whether it counts; requests of the warm-up and of the end of a segment do not.
    picture: number of its picture. No two requests have the same one.
    due_ms: when it was due. closed loop: when the answer before it was received. open loop: when it arrived.
    sent_ms: when the client began to send it.
    first_ms: when the first token came; None without a token.
    end_ms: when the answer ended, or the request failed.
    prompt_tokens, output_tokens, cached_tokens: as the server reports them; None if it does not, or if they cannot be.
    odd_counts: the numbers of tokens that it reports and that cannot be, in words; None without any.
    pieces: the pieces in which the text came.
    finish: why the answer ended, as the server says it (`finish_reason`); None before its end and in older studies.
    status: the HTTP status; None without an answer.
    error: why it failed, in one line; None if it did not.
    """

    record: Literal["request"] = "request"
    segment: ZeroOrMore
    measured: bool
    picture: ZeroOrMore
    due_ms: Ms
    sent_ms: Ms
    first_ms: Ms | None = None
    end_ms: Ms
    prompt_tokens: ZeroOrMore | None = None
    output_tokens: ZeroOrMore | None = None
    cached_tokens: ZeroOrMore | None = None
    odd_counts: str | None = None
    pieces: ZeroOrMore = 0
    finish: str | None = None
    status: int | None = None
    error: str | None = None

    @property
    def ttft_ms(self) -> float | None:
        """The time to the first token since the request was due; None if the request failed."""
        return None if self.error is not None or self.first_ms is None else self.first_ms - self.due_ms

    @property
    def total_ms(self) -> float:
        """The time to the end of the answer since the request was due."""
        return self.end_ms - self.due_ms

    @property
    def tpot_ms(self) -> float | None:
        """The time of each further token. A piece may hold several tokens, so the server must report their number.

        None if it does not, if the request failed, or if the answer came in one piece.
        """
        tokens = self.output_tokens or 0
        if self.error is not None or self.first_ms is None or tokens < 2 or self.pieces < 2:
            return None
        return (self.end_ms - self.first_ms) / (tokens - 1)


class Segment(Record):
    """A finished segment: one arm under one load.

    number: its number in the file; its requests name it.
    round: number of the round, from 0.
    place: 0 if it is the first segment of its pair, 1 if it is the second.
    start_ms, end_ms: the measured part of the segment.
    warm_ups: requests that ended before the measured part.
    steady: whether the times of the warm-up became stable.
    stopped: why the measured part ended: enough requests, or no more time.
    lag_ms: how late the client's event loop was, the 99th percentile.
    cpu_share: CPU time of the client / time, in the whole segment.
    session: id of the session.
    """

    record: Literal["segment"] = "segment"
    number: ZeroOrMore
    arm: Arm
    load: Load
    round: ZeroOrMore
    place: Annotated[int, Field(ge=0, le=1)]
    start_ms: Ms
    end_ms: Ms
    warm_ups: ZeroOrMore
    steady: bool
    stopped: Literal["requests", "seconds"]
    lag_ms: Ms = 0.0
    cpu_share: Annotated[float, Field(ge=0)] = 0.0
    session: str = ""

    @model_validator(mode="before")
    @classmethod
    def _refuse_a_repeated_picture(cls, fields: Any) -> Any:
        """Refuse a segment of an earlier version that repeated one picture, to test the caches of the servers."""
        if isinstance(fields, dict) and (fields.pop("test", "pruning") != "pruning" or fields.pop("repeated", False)):
            raise ValueError("the segment repeats one picture, which no study does any more")
        return fields


RECORDS = records_of(RequestHeader, Session, ServerFacts, ServedAnswer, PicturesUsed, Request, Segment)


@dataclass
class RequestLog:
    """The contents of a store in memory.

    sessions: those that asked, in order.
    servers: what each server said of itself, session by session.
    answers: of each arm, by the number of the question.
    segments: the finished segments, in order.
    requests: the requests by the number of their segment.
    next_picture: the number of the first picture that no segment has reserved.
    """

    sessions: list[Session] = field(default_factory=list)
    servers: list[ServerFacts] = field(default_factory=list)
    answers: dict[int, dict[Arm, ServedAnswer]] = field(default_factory=lambda: defaultdict(dict))
    segments: list[Segment] = field(default_factory=list)
    requests: dict[int, list[Request]] = field(default_factory=lambda: defaultdict(list))
    next_picture: int = 0

    @property
    def next_segment(self) -> int:
        """The first number that no segment has, finished or not."""
        return 1 + max((*self.requests, *(segment.number for segment in self.segments)), default=-1)

    def pairs(self) -> list[tuple[Segment, Segment]]:
        """The pairs whose two segments are finished, in order: dense, pruned. Each pair comes from one session."""
        pairs: dict[object, dict[Arm, Segment]] = defaultdict(dict)
        for segment in self.segments:
            pairs[segment.load, segment.round, segment.session][segment.arm] = segment
        return [(arms["dense"], arms["pruned"]) for arms in pairs.values() if len(arms) == 2]

    def add(self, record: Record) -> None:
        """Add a record, as it is in the file."""
        match record:
            case Session():
                self.sessions.append(record)
            case ServerFacts():
                self.servers.append(record)
            case ServedAnswer():
                self.answers[record.question][record.arm] = record
            case PicturesUsed():
                self.next_picture = max(self.next_picture, record.next)
            case Segment():
                self.segments.append(record)
            case Request():
                self.requests[record.segment].append(record)


def request_rows(directory: Path) -> list[dict[str, Any]]:
    """Return the requests of finished segments as rows: each with its segment, its fields, and its times since due.

    Raises StoreError if the directory holds no requests that can be read.
    """
    log = RequestLog()
    LogReader(directory / REQUESTS, RECORDS).read(log.add)
    return [
        {
            **{name: getattr(segment, name) for name in ("session", "arm", "round")},
            "loop": segment.load.loop,
            "load": segment.load.value,
            **request.model_dump(exclude={"record"}),
            **{name: getattr(request, name) for name in ("ttft_ms", "total_ms", "tpot_ms")},
        }
        for segment in log.segments
        for request in log.requests[segment.number]
    ]


class RequestStore(ContinuedLog):
    """The requests of one study: in `requests.jsonl` of a directory, or only in memory.

    A study that asks nobody writes nothing: its session is written by `start`.
    """

    records = RECORDS
    contents: RequestLog

    def __init__(self, directory: Path | None, study: EndpointStudy, session: Session):
        """Open the store: a new one, or one with the same study on the same kind of machine.

        directory: None keeps the requests in memory.
        Raises StoreError if the file holds requests of another study or answers to other questions, is no store, or
        cannot be read or written.
        """
        path = None if directory is None else directory / REQUESTS
        super().__init__(path, "finished segments", RequestHeader(study=study), session, RequestLog())
