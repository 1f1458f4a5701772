"""The append-only store `requests.jsonl` of `endpoints`: a header, the sessions, and each segment with its requests.

A segment is written when it has ended, so that no disk disturbs a measurement. A killed process loses the segment that
it was measuring. Lines of requests without the line of their segment do not count. The pictures of a lost segment are
used up: a line before each segment says so.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trio_profile.records.differences import require_same, require_same_environment
from trio_profile.records.endpoint_study import EndpointStudy
from trio_profile.records.files import REQUESTS
from trio_profile.records.lines import read_whole
from trio_profile.records.record import Record
from trio_profile.records.requests import PicturesUsed, Request, RequestHeader, Segment, ServerFacts
from trio_profile.records.session import Session
from trio_profile.records.writing import append_line, cannot_write, write_whole

RequestLine = RequestHeader | Session | ServerFacts | PicturesUsed | Request | Segment
RECORDS: dict[str, type[RequestLine]] = {
    "header": RequestHeader,
    "session": Session,
    "server": ServerFacts,
    "pictures": PicturesUsed,
    "request": Request,
    "segment": Segment,
}


@dataclass
class Asked:
    """The contents of a store in memory.

    sessions: those that asked, in order.
    servers: what each server said of itself, session by session.
    segments: the finished segments, in order.
    requests: the requests by the number of their segment.
    used: the first number of a picture that no segment has reserved.
    """

    sessions: list[Session] = field(default_factory=list)
    servers: list[ServerFacts] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    requests: dict[int, list[Request]] = field(default_factory=lambda: defaultdict(list))
    used: int = 0

    @property
    def next_segment(self) -> int:
        """The first number that no segment has, finished or not."""
        return 1 + max((*self.requests, *(segment.number for segment in self.segments)), default=-1)

    @property
    def next_picture(self) -> int:
        """The number of the first picture that no request has shown, and that no interrupted segment may have shown."""
        shown = (one.picture for requests in self.requests.values() for one in requests)
        return max(self.used, 1 + max(shown, default=-1))

    def pairs(self) -> list[tuple[Segment, Segment]]:
        """The pairs whose two segments are finished, in order. Each pair comes from one session.

        The first segment is the dense one; in a test of the cache, the one with distinct pictures.
        """
        found: dict[object, list[Segment]] = defaultdict(list)
        for segment in self.segments:
            found[segment.pair].append(segment)
        whole = [sorted(pair, key=lambda one: (one.arm, one.repeated)) for pair in found.values() if len(pair) == 2]
        return [(first, second) for first, second in whole]

    def add(self, record: Record) -> None:
        """Add a record, as it is in the file."""
        match record:
            case Session():
                self.sessions.append(record)
            case ServerFacts():
                self.servers.append(record)
            case PicturesUsed():
                self.used = max(self.used, record.next)
            case Segment():
                self.segments.append(record)
            case Request():
                self.requests[record.segment].append(record)
            case _:
                pass


class RequestStore:
    """The requests of one study: in `requests.jsonl` of a directory, or only in memory.

    found: what is asked so far.
    session: id of the session that writes.
    """

    def __init__(self, directory: Path | None, study: EndpointStudy, session: Session):
        """Open the store: a new one, or one with the same study on the same kind of machine.

        The file of another study is replaced when the session begins, if no segment of it is finished.

        directory: None keeps the requests in memory.
        Raises StoreError if the file holds requests of another study, is no store, or cannot be read or written.
        """
        self.session = session.id
        self.found = Asked()
        self._path = None if directory is None else directory / REQUESTS
        if self._path is not None and directory is not None:
            stored = read_whole(self._path, RECORDS, self.found.add)
            if stored is not None and (self.found.segments or stored == study):
                require_same("study", stored.model_dump(), study.model_dump(), directory)
                require_same_environment(self.found.sessions, session.environment, directory)
            else:
                self.found = Asked()
        self._header, self._opened = RequestHeader(study=study), session

    def begin(self) -> None:
        """Write the session, and before the first one the header.

        A study that asks nobody writes nothing. Raises StoreError if the file cannot be written.
        """
        if self._path is not None and not self.found.sessions:
            write_whole(self._path, _line(self._header) + "\n")
        self._append([self._opened])

    def add(self, servers: Sequence[ServerFacts]) -> None:
        """Add what the servers say of themselves. Raises StoreError if it cannot be written."""
        self._append([facts.model_copy(update={"session": self.session}) for facts in servers])

    def use_pictures(self, following: int) -> None:
        """Say before a segment which pictures it may show, and wait until that is on the disk.

        following: the first number that is free after the segment.
        Raises StoreError if it cannot be written.
        """
        self._append([PicturesUsed(next=following)])

    def add_segment(self, segment: Segment | None, requests: Sequence[Request]) -> None:
        """Add the requests of a segment, and wait until they are on the disk.

        segment: None if the segment was broken off.
        Raises StoreError if they cannot be written.
        """
        ended = [] if segment is None else [segment.model_copy(update={"session": self.session})]
        self._append([*requests, *ended])

    def _append(self, records: Sequence[RequestLine]) -> None:
        for record in records:
            self.found.add(record)
        if self._path is None or not records:
            return
        try:
            append_line(self._path, "\n".join(map(_line, records)).encode())
        except OSError as error:
            raise cannot_write(self._path, error, "finished segments are kept, and the same command goes on") from error


def _line(record: RequestLine) -> str:
    return record.model_dump_json(exclude_none=True)
