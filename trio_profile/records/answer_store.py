"""The append-only store `answers.jsonl` of `eval`: a header, the sessions, and one line for each answered question.

Each line is flushed to the disk before the next question is asked. So a killed process loses at most the question that
it was asking. If the last line is cut off, the reader drops it, and the question is asked again.
"""

from dataclasses import dataclass, field
from pathlib import Path

from trio_profile.records.answers import AnsweredQuestion, RefusedCell
from trio_profile.records.differences import require_same, require_same_environment, require_same_inputs
from trio_profile.records.files import ANSWERS
from trio_profile.records.lines import read_whole
from trio_profile.records.record import Record
from trio_profile.records.schema import Header, Session, Study
from trio_profile.records.writing import append_line, cannot_write, write_whole

Key = tuple[str, str, int, str]
"""What identifies a question: its task, its split, its number, and the hash of its prompt."""
AnswerLine = Header | Session | AnsweredQuestion | RefusedCell
RECORDS: dict[str, type[AnswerLine]] = {
    "header": Header,
    "session": Session,
    "question": AnsweredQuestion,
    "refusal": RefusedCell,
}


@dataclass
class Answered:
    """The answers to the questions of a study in memory.

    sessions: those that asked, in order.
    questions: the answers by question. A later line of a question replaces the earlier one.
    refused: the refused cells, by their ids.
    """

    sessions: list[Session] = field(default_factory=list)
    questions: dict[Key, AnsweredQuestion] = field(default_factory=dict)
    refused: dict[str, RefusedCell] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Add a record, as it is in the file."""
        match record:
            case Session():
                self.sessions.append(record)
            case AnsweredQuestion():
                self.questions[key_of(record)] = record
            case RefusedCell():
                self.refused[record.cell.id] = record
            case _:
                pass


def key_of(answered: AnsweredQuestion) -> Key:
    """Return what identifies a question."""
    return answered.task, answered.split, answered.document, answered.prompt


class AnswerStore:
    """The answers of one study: in `answers.jsonl` of a directory, or only in memory.

    found: what is answered so far.
    session: id of the session that writes.
    """

    def __init__(self, directory: Path | None, study: Study, session: Session):
        """Open the store: create it, or continue one with the same study on the same kind of machine.

        A file without an answer is replaced.

        directory: None keeps the answers in memory.
        Raises StoreError if the file holds answers of another study, is no store, or cannot be read or written.
        """
        self.session = session.id
        self.found = Answered()
        self._path = None if directory is None else directory / ANSWERS
        if self._path is not None and directory is not None:
            stored = read_whole(self._path, RECORDS, self.found.add)
            if stored is not None and self.found.questions:
                require_same("study", stored.model_dump(), study.model_dump(), directory)
                require_same_environment(self.found.sessions, session.environment, directory)
                require_same_inputs(study, self.found.sessions, session.inputs, directory)
            else:
                self.found = Answered()
                write_whole(self._path, Header(study=study).model_dump_json(exclude_none=True) + "\n")
        self.add(session)

    def add(self, record: Session | AnsweredQuestion | RefusedCell) -> None:
        """Add a record, and wait until it is on the disk. Raises StoreError if it cannot be written."""
        if not isinstance(record, Session):
            record = record.model_copy(update={"session": self.session})
        self.found.add(record)
        if self._path is None:
            return
        try:
            append_line(self._path, record.model_dump_json().encode())
        except OSError as error:
            raise cannot_write(
                self._path, error, "finished questions are kept, and the same command goes on"
            ) from error
