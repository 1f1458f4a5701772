"""The contents of a store in memory: the sessions, the dense model and the cells of a study."""

from dataclasses import dataclass, field

from trio_profile.errors import StoreError
from trio_profile.records.schema import (
    Answers,
    Dense,
    Environment,
    Measurement,
    Picture,
    Round,
    Session,
    Study,
)
from trio_profile.records.timing import Timing, timings_of


@dataclass
class Contents:
    """The contents of a store.

    study: what is asked.
    sessions: in the order in which they began.
    dense: the dense model's quantities; None if they are not measured yet.
    picture: the picture whose kept tokens the cells have; None before the first cell is counted.
    rounds: in the order of measurement.
    asking_seconds: that further questions took.
    further_answers: how many answers were given to them, with those of the dense model.
    question_counts: how many questions the dense model had answered after each time that some were asked.
    dropped: one sentence for each line that could not be read.
    """

    study: Study
    sessions: list[Session] = field(default_factory=list)
    dense: Dense | None = None
    picture: Picture | None = None
    rounds: list[Round] = field(default_factory=list)
    asking_seconds: float = 0.0
    further_answers: int = 0
    question_counts: list[int] = field(init=False)
    dropped: list[str] = field(default_factory=list)
    _counted: dict[str, Measurement] = field(default_factory=dict, repr=False)
    _timed: dict[str, Measurement] | None = field(default=None, repr=False)
    _ids: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids = {session.id for session in self.sessions}
        self.question_counts = [len(self.dense.correct)] if self.dense else []

    @property
    def environment(self) -> Environment:
        """The machine of the first session. Raises StoreError if the store has no session."""
        if not self.sessions:
            raise StoreError("the study has no session, so nothing was measured: run the same command again")
        return self.sessions[0].environment

    @property
    def cells(self) -> dict[str, Measurement]:
        """One record for each cell that was begun, with its times, by the id of the cell."""
        if self._timed is None:
            timings = timings_of(self.rounds)
            self._timed = {name: _with(counted, timings.get(name, ())) for name, counted in self._counted.items()}
        return self._timed

    @property
    def measurements(self) -> list[Measurement]:
        """The cells that are measured, failed or refused. Cells that are only counted are left out."""
        return [measurement for measurement in self.cells.values() if measurement.status != "counted"]

    @property
    def done(self) -> list[Measurement]:
        """The finished cells."""
        return [measurement for measurement in self.measurements if measurement.status == "done"]

    def add(self, record: Session | Dense | Picture | Measurement | Answers | Round) -> None:
        """Add a record, as it is in the file. A later record of a cell replaces its earlier ones.

        Raises StoreError, and adds nothing, if the record contradicts the earlier ones.
        """
        self._timed = None
        if not isinstance(record, Session) and record.session not in self._ids:
            raise StoreError(f"{record.record}.session: {record.session!r} is no session of this file")
        match record:
            case Session():
                self._require_new(record)
                self.sessions.append(record)
                self._ids.add(record.id)
            case Dense():
                self.dense, self.question_counts = record, [len(record.correct)]
            case Picture():
                self.picture = record
            case Measurement():
                _require_counts(record)
                self._require_answers(record)
                self._add_cell(record)
            case Answers():
                self._add_answers(record)
            case Round():
                self._add_round(record)

    def _require_new(self, session: Session) -> None:
        if session.id in self._ids:
            raise StoreError(f"session.id: {session.id!r} is an earlier session")
        if self.sessions and session.environment.identity != self.sessions[0].environment.identity:
            raise StoreError(f"session.environment: {session.id!r} ran on another kind of machine than the first one")

    def _require_answers(self, measurement: Measurement) -> None:
        """Raise StoreError unless the pruned model answered the same questions as the dense model."""
        if self.dense is None or measurement.fidelity is None:
            return
        answers, questions = len(measurement.fidelity.correct), self.question_counts[0]
        if answers and answers != questions * measurement.fidelity.draws:
            raise StoreError(f"measurement.fidelity.correct: {answers} answers, and the dense model gave {questions}")

    def _add_cell(self, record: Measurement) -> None:
        before = self._counted.get(record.cell.id)
        if before is not None and before.status == "counted" and record.status == "failed":
            # Its counts stay, and so do the times of earlier sessions.
            record = before.model_copy(update={"reason": record.reason})
        self._counted[record.cell.id] = record

    def _add_answers(self, record: Answers) -> None:
        """Add answers to further questions: the dense model's, or those of a cell to questions that it has answered."""
        cell, dense = self._counted.get(record.cell), self.dense
        fidelity = None if cell is None else cell.fidelity
        known = 0 if dense is None else len(dense.correct)
        if record.cell:
            known, answered = 0 if fidelity is None else fidelity.questions, known
            if fidelity is None or record.fidelity is None or (record.numbers and record.numbers[-1] >= answered):
                raise StoreError(f"answers.cell: {record.cell!r} and the dense model did not answer these questions")
        if dense is None or record.numbers != tuple(range(known, known + len(record.numbers))):
            raise StoreError(f"answers.numbers: they do not follow the {known} answers before them")
        self.further_answers += len(record.numbers)
        if record.cell and cell is not None and fidelity is not None and record.fidelity is not None:
            try:
                update = {"fidelity": fidelity.followed_by(record.fidelity)}
            except ValueError as error:
                raise StoreError(f"answers.fidelity: it is not like that of the first answers: {error}") from error
            self._counted[record.cell] = cell.model_copy(update=update)
        else:
            if dense.correct and not record.correct:
                raise StoreError("answers.correct: no values, and the first answers have some")
            asked_in_all = known + len(record.numbers)
            for name in ("kinds", "pictures"):
                if (values := getattr(record, name) or getattr(dense, name)) and len(values) != asked_in_all:
                    raise StoreError(f"answers.{name}: {len(values)} values for {asked_in_all} questions")
            update = {"correct": (*dense.correct, *record.correct), "kinds": record.kinds, "pictures": record.pictures}
            update |= {} if record.chance is None else {"chance": record.chance}
            self.dense = dense.model_copy(update=update)
            self.asking_seconds += record.seconds
            self.question_counts.append(len(self.dense.correct))

    def _add_round(self, record: Round) -> None:
        for cell in record.cells:
            if (counted := self._counted.get(cell)) is None or counted.status != "counted":
                raise StoreError(f"round.runs: cell {cell!r} was not counted")
            if counted.reason is not None:  # that of an earlier failure
                self._counted[cell] = counted.model_copy(update={"reason": None})
        self.rounds.append(record)


def _with(counted: Measurement, timings: tuple[Timing, ...]) -> Measurement:
    """Return the record of a cell with its times."""
    if counted.status != "counted":
        return counted
    if any(timing.pairs for timing in timings):
        return counted.model_copy(update={"status": "done", "timings": timings})
    return counted if counted.reason is None else counted.model_copy(update={"status": "failed"})


def _require_counts(measurement: Measurement) -> None:
    """Raise StoreError unless a cell that ran has its retention and its counted work."""
    for name in ("retention", "counted", "kv_bytes", "fastv_macs"):
        if measurement.status in ("done", "counted") and getattr(measurement, name) is None:
            raise StoreError(f"measurement.{name}: it is missing, and the cell is {measurement.status}")
