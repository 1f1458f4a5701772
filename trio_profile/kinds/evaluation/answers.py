"""The log `answers.jsonl` of `eval`: one line for each question with all answers to it, and the refused cells.

The file begins with a header, and each session adds a line, as in `measurements.jsonl` (records/schema.py). A question
whose line is cut off is asked again.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from trio_profile.records.files import ANSWERS
from trio_profile.records.log import ContinuedLog, records_of
from trio_profile.records.record import Record, ZeroOrMore
from trio_profile.records.schema import Cell, Header, Session, Study

DENSE = "dense"
"""The name of the dense model in `AnsweredQuestion.order`. Cells stand there with their ids."""


class Answer(Record):
    """One generated answer with its times.

    text: the answer, without white space at its ends.
    tokens: number of generated tokens, the end token included.
    prefill_ms, ttft_ms, total_ms: times as in `records.schema.Pair`.
    kv_bytes: bytes of the KV cache after the prefill.
    """

    text: str
    tokens: int
    prefill_ms: float
    ttft_ms: float
    total_ms: float
    kv_bytes: ZeroOrMore


class PrunedAnswer(Answer):
    """The answer of one cell.

    cell: the method, the retention and the options.
    retention: the realised retention.
    fastv_macs: F_inf + F_ov by the paper's formulas, with the study's γ, from the stages that ran.
    notes: what readers must know of how the prefill ran.
    """

    cell: Cell
    retention: Annotated[float, Field(ge=0, le=1)]
    fastv_macs: ZeroOrMore
    notes: tuple[str, ...] = ()


class AnsweredQuestion(Record):
    """All answers to one question of a task.

    A question without a picture is answered only once, by the dense model. Its answer counts for every cell.

    task, split, document: name of the task, the split of its data, and number of the question in it.
    prompt: hash of the messages that were asked, and of the options of the answer. A task that has changed asks its
        questions again.
    picture: number of its pictures. Questions with one number show the same pictures. None without pictures.
    pixels: hash of its pictures; empty without pictures. A later session numbers the same pictures alike.
    visual_tokens: visual tokens that enter the decoder; 0 without pictures.
    order: who answered first, second, and so on, in random order: `dense` and the ids of the cells.
    dense: the dense model's answer; None if the study leaves the dense model out and the question has a picture.
    dense_fastv_macs: L · f(V0) by the paper's formula.
    answers: the answers of the cells; empty for a question without a picture.
    session: id of the session that asked.
    """

    record: Literal["question"] = "question"
    task: str
    split: str
    document: int
    prompt: str
    picture: int | None = None
    pixels: str = ""
    visual_tokens: ZeroOrMore
    order: tuple[str, ...]
    dense: Answer | None = None
    dense_fastv_macs: ZeroOrMore
    answers: tuple[PrunedAnswer, ...]
    session: str = ""

    @property
    def key(self) -> "Key":
        """The identity of a question."""
        return self.task, self.split, self.document, self.prompt

    @property
    def timed(self) -> bool:
        """Whether the question has a picture. Only then do its times show the effect of pruning."""
        return bool(self.answers)

    def answer_of(self, row: str) -> Answer | None:
        """Return the answer of one row of the table; None if it has none.

        row: `dense` or the id of a cell. A question without a picture has one answer, which counts for every row.
        """
        if row == DENSE or not self.answers:
            return self.dense
        return next((answer for answer in self.answers if answer.cell.id == row), None)


class RefusedCell(Record):
    """A cell that its method, the model or a question refuses. It is not asked again."""

    record: Literal["refusal"] = "refusal"
    cell: Cell
    reason: str
    session: str = ""


Key = tuple[str, str, int, str]
"""The identity of a question: its task, its split, its number, and the hash of its prompt."""
RECORDS = records_of(Header, Session, AnsweredQuestion, RefusedCell)


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

    def add(self, record: Session | AnsweredQuestion | RefusedCell) -> None:
        """Add a record, as it is in the file."""
        if isinstance(record, Session):
            self.sessions.append(record)
        elif isinstance(record, AnsweredQuestion):
            self.questions[record.key] = record
        else:
            self.refused[record.cell.id] = record


class AnswerStore(ContinuedLog):
    """The answers of one study: in `answers.jsonl` of a directory, or only in memory."""

    records = RECORDS
    contents: Answered

    def __init__(self, directory: Path | None, study: Study, session: Session):
        """Open the store: create it, or continue one with the same study on the same kind of machine.

        directory: None keeps the answers in memory.
        Raises StoreError if the file holds answers of another study, is no store, or cannot be read or written.
        """
        path = None if directory is None else directory / ANSWERS
        super().__init__(path, "finished questions", Header(study=study), session, Answered())
        self.start()
