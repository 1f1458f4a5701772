"""The contents of a store in memory: the sessions, the dense model and the cells of a study."""

from dataclasses import dataclass, field

from trio_profile.errors import StoreError
from trio_profile.records.record import VERSION, Version
from trio_profile.records.run import Run
from trio_profile.records.schema import (
    Cell,
    Dense,
    Environment,
    Measurement,
    Picture,
    Session,
    Study,
    Timing,
    TimingLine,
)


@dataclass
class Contents:
    """The contents of a store.

    study: what is asked.
    version: format version of the file.
    sessions: in the order in which they began.
    dense: the dense model's quantities; None if they are not measured yet.
    picture: the picture whose kept tokens the cells have; None in old files, and before the first cell is counted.
    cells: one record for each cell that was begun, by the id of the cell.
    runs: the finished runs of blocks, if several workers measured the study; otherwise empty.
    dropped: one sentence for each line that could not be read.
    """

    study: Study
    version: Version = VERSION
    sessions: list[Session] = field(default_factory=list)
    dense: Dense | None = None
    picture: Picture | None = None
    cells: dict[str, Measurement] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    _ids: set[str] = field(init=False, repr=False)
    _kinds: list[Environment] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids = {session.id for session in self.sessions}
        self._kinds = [session.environment for session in self.sessions]

    @property
    def environment(self) -> Environment:
        """The machine of the first session. Raises StoreError if the store has no session."""
        if not self.sessions:
            raise StoreError("the study has no session, so nothing was measured: run the same command again")
        return self.sessions[0].environment

    @property
    def measurements(self) -> list[Measurement]:
        """The cells that are measured, failed or refused. Cells that are only counted are left out."""
        return [measurement for measurement in self.cells.values() if measurement.status != "counted"]

    def add(self, record: Session | Dense | Picture | Measurement | TimingLine) -> None:
        """Add a record, as it is in the file. A later record of a cell replaces its earlier ones.

        Raises StoreError, and adds nothing, if the record contradicts the earlier ones.
        """
        match record:
            case Session():
                self._require_new(record)
                self.sessions.append(record)
                self._ids.add(record.id)
            case Dense():
                self._require_session("dense", record.session)
                self.dense = record
            case Picture():
                self._require_session("picture", record.session)
                self.picture = record
            case Measurement():
                self._require_session("measurement", record.session, *(timing.session for timing in record.timings))
                _require_counts(record)
                self._require_answers(record)
                self._add_cell(record)
            case TimingLine():
                self._require_session("timing", record.session)
                self._add_timing(record.cell, Timing(**{name: getattr(record, name) for name in Timing.model_fields}))

    def _require_new(self, session: Session) -> None:
        if session.id in self._ids:
            raise StoreError(f"session.id: {session.id!r} is an earlier session")
        if any(session.environment.identity == kind.identity for kind in self._kinds):
            return  # a study of many workers has thousands of sessions
        compared = [session.environment.compared_with(kind) for kind in self._kinds]
        if any(now != before for now, before in compared):
            raise StoreError(f"session.environment: {session.id!r} ran on another kind of machine than the first one")
        self._kinds.append(session.environment)

    def _require_session(self, record: str, *ids: str) -> None:
        for session in ids:
            if session not in self._ids:
                raise StoreError(f"{record}.session: {session!r} is no session of this file")

    def _require_answers(self, measurement: Measurement) -> None:
        """Raise StoreError unless the pruned model answered the same questions as the dense model."""
        if self.dense is None or measurement.fidelity is None:
            return
        answers, asked = len(measurement.fidelity.correct), len(self.dense.correct)
        if answers and answers != asked * measurement.fidelity.draws:
            raise StoreError(f"measurement.fidelity.correct: {answers} answers, and the dense model gave {asked}")

    def _add_cell(self, record: Measurement) -> None:
        before = self.cells.get(record.cell.id)
        if before is not None and before.timings and record.status == "failed":
            # The times of earlier sessions stay.
            record = before.model_copy(update={"reason": record.reason})
        self.cells[record.cell.id] = record

    def _add_timing(self, cell: Cell, timing: Timing) -> None:
        counted = self.cells.get(cell.id)
        if counted is None or counted.status not in ("done", "counted"):
            raise StoreError(f"timing.cell: {cell.variant} at {cell.retention:g} was not counted")
        if timing.session in {earlier.session for earlier in counted.timings}:
            raise StoreError(f"timing.session: {timing.session!r} has times of this cell already")
        # The reason is that of an earlier failure, and the cell has now been measured.
        update = {"status": "done", "timings": (*counted.timings, timing), "reason": None}
        self.cells[cell.id] = counted.model_copy(update=update)


def _require_counts(measurement: Measurement) -> None:
    """Raise StoreError unless a cell that ran has its retention and its counted work."""
    for name in ("retention", "counted", "kv_bytes", "fastv_macs"):
        if measurement.status in ("done", "counted") and getattr(measurement, name) is None:
            raise StoreError(f"measurement.{name}: it is missing, and the cell is {measurement.status}")
