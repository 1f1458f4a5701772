"""The log `answers.jsonl` of `eval`: one line for each answered question.

A question whose line is cut off is asked again.
"""

from dataclasses import dataclass, field
from pathlib import Path

from trio_profile.records.answers import AnsweredQuestion, RefusedCell
from trio_profile.records.differences import require_same_inputs
from trio_profile.records.files import ANSWERS
from trio_profile.records.log import ContinuedLog
from trio_profile.records.record import Record
from trio_profile.records.schema import Header, Session, Study

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


class AnswerStore(ContinuedLog[Answered]):
    """The answers of one study: in `answers.jsonl` of a directory, or only in memory."""

    records = RECORDS
    empty = Answered

    def __init__(self, directory: Path | None, study: Study, session: Session):
        """Open the store: create it, or continue one with the same study on the same kind of machine.

        A file without an answer is replaced.

        directory: None keeps the answers in memory.
        Raises StoreError if the file holds answers of another study, is no store, or cannot be read or written.
        """
        path = None if directory is None else directory / ANSWERS
        super().__init__(path, "finished questions", Header(study=study), session)
        if directory is not None:
            require_same_inputs(study, self.contents.sessions, session.inputs, directory)
        self.start()

    def must_keep(self, *, is_same_study: bool) -> bool:  # noqa: ARG002 - without an answer nothing is lost
        """Return whether a question is answered."""
        return bool(self.contents.questions)
