"""Counting in several processes: each counts some of the cells, and asks some of the questions of every cell.

The processes send parts. `Parts` puts them together, and gives each record back as soon as it is complete.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trio_profile.records.schema import VALUES, Answers, Dense, Fidelity, Measurement, Picture, Round
from trio_profile.stats.orders import in_order

DENSE = "dense"
"""What stands for the dense model among the ids of cells."""
DENSE_WEIGHT = 1.5
"""The exact counts of the dense model take as long as those of so many cells. [`pocket`, one thread]"""


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


def _with_answers(record: Dense | Measurement, shares: Sequence[Answers]) -> Dense | Measurement:
    """Return a record with the answers of all shares."""
    answers = together(shares)
    if isinstance(record, Dense):
        return record.model_copy(update={"correct": answers.correct})
    return record if answers.fidelity is None else record.model_copy(update={"fidelity": answers.fidelity})


def together(shares: Iterable[Answers]) -> Answers:
    """Return the answers of a cell in all shares as one, in the order of the questions."""
    shares = [part for part in shares if part.numbers]
    if not shares:
        return Answers()
    numbers = [part.numbers for part in shares]
    parts = [part.fidelity for part in shares if part.fidelity is not None]
    fidelity = None
    if parts:
        values = {name: _together(numbers, [part.by_draw(name) for part in parts]) for name in VALUES}
        fidelity = Fidelity(draws=parts[0].draws, **values)
    update = {
        "numbers": tuple(sorted(number for some in numbers for number in some)),
        "correct": in_order((part.numbers, part.correct) for part in shares),
        "fidelity": fidelity,
    }
    return shares[0].model_copy(update=update)


def _together(numbers: Sequence[tuple[int, ...]], columns: Sequence[list[tuple[Any, ...]]]) -> tuple[Any, ...]:
    """Return the values of all shares in the order of the questions, seed by seed. columns: of each share and seed."""
    by_draw = zip(*columns, strict=True)
    return tuple(value for draw in by_draw for value in in_order(zip(numbers, draw, strict=True)))
