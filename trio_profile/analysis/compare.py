"""The document of `trio-profile compare`: methods side by side, each at the same retentions, in one process."""

from trio_profile.analysis.accuracy import difference, right
from trio_profile.analysis.pareto import front
from trio_profile.analysis.sweep import CellSummary, DenseSummary, summarise
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import FORMAT, VERSION, Dense, Environment, Measurement, Record, Study


class Row(CellSummary):
    """One method at one retention. pareto: none at this retention is both as fast in prefill and as near to dense.

    reference_difference: its accuracy less that of the comparison's reference method, on the same questions, with a
    paired interval; accuracy_difference is less the dense model's.
    """

    pareto: bool = False
    reference_difference: Difference | None = None


class Comparison(Record):
    """What `trio-profile compare --json` prints.

    reference: the method that the others' answers are held against: trio where it is there, else the first one named.
    rows: by retention, the fastest prefill first; then what failed or was refused, with its reason.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
    dense: DenseSummary | None
    reference: str
    rows: list[Row]
    report: str | None = None

    def at(self, retention: float) -> list[Row]:
        """The rows of one nominal retention that were measured."""
        return [row for row in self.rows if row.nominal_retention == retention and row.status == "done"]

    @property
    def answered(self) -> dict[str, dict[float, Row]]:
        """By method and nominal retention, the rows whose answers are known to be right or wrong; most right first."""
        found: dict[str, dict[float, Row]] = {}
        for row in self.rows:
            if row.accuracy is not None:
                found.setdefault(row.method, {})[row.nominal_retention] = row
        return dict(sorted(found.items(), key=lambda pair: -_mean_accuracy(pair[1])))

    @property
    def refusals(self) -> list[Row]:
        """What could not be run."""
        return [row for row in self.rows if row.status != "done"]


def compare(study: Study, environment: Environment, dense: Dense | None, measurements: list[Measurement]) -> Comparison:
    """Derive the comparison of a study from its records."""
    document = summarise(study, environment, dense, measurements)
    reference = "trio" if "trio" in study.methods else study.methods[0]
    shares = {(seen.cell.method, seen.cell.retention): right(seen, dense) for seen in measurements}

    def apart(method: str, retention: float) -> Difference | None:
        mine, its = shares.get((method, retention)), shares.get((reference, retention))
        return difference(mine, its) if method != reference and mine is not None and its is not None else None

    rows: list[Row] = []
    for retention in sorted(set(study.retentions)):
        cells = [cell for cell in document.cells if cell.nominal_retention == retention and cell.status == "done"]
        cells.sort(key=_speedup, reverse=True)
        judged = [cell for cell in cells if cell.kl_nats is not None]
        best = {
            judged[index].method
            for index in front([(_speedup(cell), cell.kl_nats.value) for cell in judged if cell.kl_nats is not None])
        }
        rows += [
            Row(
                **dict(cell),
                pareto=cell.method in best,
                reference_difference=apart(cell.method, cell.nominal_retention),
            )
            for cell in cells
        ]
    rows += [Row(**dict(cell)) for cell in document.cells if cell.status != "done"]
    return Comparison(environment=environment, study=study, dense=document.dense, reference=reference, rows=rows)


def _mean_accuracy(rows: dict[float, Row]) -> float:
    right = [row.accuracy.value for row in rows.values() if row.accuracy is not None]
    return sum(right) / len(right)


def _speedup(cell: CellSummary) -> float:
    return cell.prefill_speedup.value if cell.prefill_speedup is not None else 0.0
