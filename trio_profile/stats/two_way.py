"""The centres of several cells that were measured in the same rounds of several processes, with their errors.

Log ratio = cell + process + cell × process + round. A process gives each cell one number, the median of its rounds, and
the error of a cell's mean over processes follows from the two-way table of these numbers: cells by processes. What the
cells share in their spread is pooled: ten cells in four processes give 27 degrees of freedom where one cell has 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from trio_profile.errors import MeasurementError
from trio_profile.stats.intervals import MACHINE_FREEDOM, Groups, Interval, median, of_logarithms, sum_of_errors

UNEQUAL = 0.1
"""Cells whose spreads differ by chance with a lower probability than this are not pooled [Bartlett 1937]. It is high,
because a missed difference makes the interval of the noisiest cell too narrow (tests/benchmarks/test_coverage.py)."""
UNEQUAL_OF_FEW = 0.3
"""The same with fewer than MANY processes, where the test misses more."""
MANY = 8
LEAST_POOLED = 4
"""With fewer cells the test of equal spreads has no power, and pooling gains little."""
PARTS, LONG_PART = 4, 8
"""A single process is cut into parts of neighbouring rounds, which stand for processes: four parts, and more if each
has eight rounds. Where neighbours are alike, only long parts differ as much as they should."""

_UNKNOWN = log(100) / float(stdtrit(1, 0.975))
"""The error of a cell with a single number, which says nothing of it: the interval is a hundredfold either way."""
Table = NDArray[np.float64]


@dataclass(frozen=True)
class Centre:
    """The centre of one cell's ratios or times.

    log: the mean over the processes of the logarithm of the median.
    error: its standard error.
    freedom: degrees of freedom of the error.
    samples: number of rounds.
    processes: number of processes.
    """

    log: float
    error: float
    freedom: float
    samples: int
    processes: int

    @property
    def value(self) -> float:
        """The centre itself."""
        return exp(self.log)

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return the interval of the centre."""
        reach = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        return of_logarithms(self.log, reach)

    def half_width(self) -> float:
        """Return half the width of the 95 % interval over the centre."""
        low, high = self.interval()
        return (high - low) / 2 / self.value

    def inverse(self) -> "Centre":
        """Return the centre of the inverse ratios."""
        return Centre(-self.log, self.error, self.freedom, self.samples, self.processes)

    def over(self, other: "Centre") -> "Centre":
        """Return the ratio of this centre to one that was measured independently (Welch 1947, Satterthwaite 1946)."""
        error, freedom = sum_of_errors(self.error, self.freedom, other.error, other.freedom)
        samples, processes = min(self.samples, other.samples), min(self.processes, other.processes)
        return Centre(self.log - other.log, error, freedom, samples, processes)


def centres(cells: Sequence[Groups], machine: float = 0.0) -> list[Centre]:
    """Return the centre of each cell.

    Cells that were measured in equally many processes are pooled, if their spreads do not differ.

    cells: for each cell its ratios or times by process, each process in the order of measurement. The
        first process of one cell is that of all others, and so on.
    machine: the spread of the machine's state, see `intervals.machine_spread`. No process of one study shows it.
    Raises MeasurementError if a process has no samples, or if one is not finite or not positive.
    """
    tables = [_logs(cell) for cell in cells]
    alike: dict[int, list[int]] = {}
    for number, logs in enumerate(tables):
        alike.setdefault(len(logs), []).append(number)
    by_number: dict[int, Centre] = {}
    for numbers in alike.values():
        table = np.array([tables[number] for number in numbers])
        errors = _errors(table)
        for number, (error, freedom) in zip(numbers, errors, strict=True):
            total, freedom = sum_of_errors(error, freedom, machine, MACHINE_FREEDOM) if machine else (error, freedom)
            cell = cells[number]
            samples = sum(map(len, cell))
            by_number[number] = Centre(float(np.mean(tables[number])), total, freedom, samples, len(cell))
    return [by_number[number] for number in range(len(cells))]


def centre_of(groups: Groups, machine: float = 0.0) -> Centre:
    """Return the centre of one cell alone."""
    return centres([groups], machine)[0]


def _logs(groups: Groups) -> Table:
    """Return the logarithm of each process's median. A single process is cut into parts."""
    if not groups or not all(len(group) and all(isfinite(value) and value > 0 for value in group) for group in groups):
        sizes = " + ".join(str(len(group)) for group in groups) or "0"
        raise MeasurementError(f"{sizes} samples, not all of them finite and positive, have no interval; measure again")
    if len(groups) == 1:
        [rounds] = groups
        ends = np.flatnonzero(np.diff(parts_of(len(rounds)))) + 1
        groups = [part.tolist() for part in np.split(rounds, ends)]
    return np.array([log(median(group)) for group in groups])


def parts_of(rounds: int) -> list[int]:
    """Return the number of each round's part, if a single process measured so many rounds."""
    count = max(PARTS, rounds // LONG_PART) if rounds >= 2 * PARTS else rounds
    return [number for number, part in enumerate(np.array_split(np.arange(rounds), count)) for _ in part]


def _errors(table: Table) -> list[tuple[float, float]]:
    """Return each cell's standard error with its degrees of freedom. table: [cells, processes]."""
    cells, processes = table.shape
    if processes < 2:
        return [(_UNKNOWN, 1.0)] * cells
    if cells >= LEAST_POOLED and _have_one_spread(rest := _without_means(table)):
        apart = float((rest**2).sum()) / ((cells - 1) * (processes - 1))
        together = cells * float(table.mean(axis=0).var(ddof=1))
        # Of a mean over processes: (process + cell × process) / processes [Satterthwaite 1946].
        parts = together / cells, (cells - 1) / cells * apart
        variance = sum(parts)
        spread = parts[0] ** 2 / (processes - 1) + parts[1] ** 2 / ((cells - 1) * (processes - 1))
        freedom = variance**2 / spread if spread else float((cells - 1) * (processes - 1))
        return [(sqrt(variance / processes), freedom)] * cells
    return [(float(row.std(ddof=1)) / sqrt(processes), processes - 1.0) for row in table]


def _without_means(table: Table) -> Table:
    """Return a table without the means of its cells and of its processes."""
    return table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()


def _have_one_spread(rest: Table) -> bool:
    """Return whether the cells' spreads differ by no more than chance explains. rest: [cells, processes]."""
    from scipy.stats import bartlett  # takes half a second to import

    if not (rest.std(axis=1) > 0).all():
        return bool((rest == 0).all())
    return float(bartlett(*rest).pvalue) > (UNEQUAL if rest.shape[1] >= MANY else UNEQUAL_OF_FEW)


def sum_of_parts(parts: Sequence[tuple[float, Centre]], value: float) -> Centre:
    """Return the centre of a sum of parts that were measured in the same processes.

    The errors are added as if the parts always erred together, so the interval is never too narrow for that reason.

    parts: the share of each part in the sum, and its centre.
    value: the sum.
    """
    errors = [(share * part.error, part.freedom) for share, part in parts]
    error = sum(part_error for part_error, _ in errors)
    freedom = min(freedom for _, freedom in errors)
    samples, processes = min(part.samples for _, part in parts), min(part.processes for _, part in parts)
    return Centre(log(value), error, freedom, samples, processes)
