"""Counting in several processes: each counts some of the cells, and asks some of the questions of every cell.

The processes send parts. `Parts` puts them together, and gives each record back as soon as it is complete.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from trio_profile.records.record import Record, ZeroOrMore
from trio_profile.records.schema import Dense, Fidelity, Measurement, Picture, Round
from trio_profile.stats.orders import in_order

DENSE = "dense"
"""What stands for the dense model among the ids of cells."""
DENSE_WEIGHT = 1.5
"""The exact counts of the dense model take as long as those of so many cells. [`pocket`, one thread]"""


class Answers(Record):
    """The answers of one cell, or of the dense model, to some questions.

    cell: id of the cell; empty for the dense model.
    numbers: of the questions, from 0. Empty without questions, and if there are more processes than batches of them.
    fidelity: how close the cell's answers are to the dense model's, in the order of `numbers`; None for the dense
        model, and without questions.
    correct: whether the dense model's answers are the known ones, in the same order; empty if none are known.
    """

    record: Literal["answers"] = "answers"
    cell: str = ""
    numbers: tuple[ZeroOrMore, ...] = ()
    fidelity: Fidelity | None = None
    correct: tuple[bool, ...] = ()


Complete = Dense | Picture | Measurement | Round
"""A record of the log."""


class Parts:
    """The parts that have arrived. shares: the number of processes."""

    def __init__(self, shares: int):
        self.shares = shares
        self._records: dict[str, Dense | Measurement] = {}
        self._answers: dict[str, dict[int, Answers]] = {}
        self._complete: set[str] = set()

    def add(self, number: int, part: Complete | Answers) -> Iterator[Complete]:
        """Add a part. Yield the record that it completes. A cell that fails or is refused is complete at once.

        number: of the share. A share that was given again, because its host was lost, sends its parts again: what is
        complete stays as it is.
        """
        if isinstance(part, Round):
            yield part
            return
        if isinstance(part, Measurement):
            cell = part.cell.id
        else:
            cell = (part.cell or DENSE) if isinstance(part, Answers) else part.record
        if cell in self._complete:
            return
        if isinstance(part, Picture) or (isinstance(part, Measurement) and part.status != "counted"):
            self._complete.add(cell)
            yield part
            return
        if isinstance(part, Answers):
            self._answers.setdefault(cell, {})[number] = part
        else:
            self._records[cell] = part
        if cell in self._records and len(self._answers.get(cell, ())) == self.shares:
            self._complete.add(cell)
            yield _with_answers(self._records.pop(cell), [*self._answers.pop(cell).values()])


def shares_of(cells: Sequence[str], shares: int, *, with_dense: bool) -> list[list[str]]:
    """Return the cells that each process counts, so that all take about equally long.

    with_dense: whether the first process counts the dense model too.
    """
    counts: list[list[str]] = [[] for _ in range(shares)]
    load = [DENSE_WEIGHT if with_dense and number == 0 else 0.0 for number in range(shares)]
    for cell in cells:
        least = min(range(shares), key=load.__getitem__)
        counts[least].append(cell)
        load[least] += 1
    return counts


def _with_answers(record: Dense | Measurement, answers: Sequence[Answers]) -> Dense | Measurement:
    """Return a record with the answers of all shares, in the order of the questions."""
    if isinstance(record, Dense):
        return record.model_copy(update={"correct": in_order((part.numbers, part.correct) for part in answers)})
    answers = [part for part in answers if part.numbers]
    parts = [part.fidelity for part in answers if part.fidelity is not None]
    if not parts:
        return record
    draws = parts[0].draws
    fields: dict[str, Any] = {}
    for name in ("kl_nats", "top1", "same", "correct"):
        columns = [_by_draw(getattr(part, name), draws) for part in parts]
        fields[name] = tuple(
            value
            for draw in range(draws)
            for value in in_order((part.numbers, column[draw]) for part, column in zip(answers, columns, strict=True))
        )
    return record.model_copy(update={"fidelity": Fidelity(draws=draws, **fields)})


def _by_draw(values: Sequence[Any], draws: int) -> list[Sequence[Any]]:
    """Return the values of each seed."""
    each = len(values) // draws
    return [values[draw * each : (draw + 1) * each] for draw in range(draws)]
