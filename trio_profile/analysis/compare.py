"""The document of `trio-profile compare`: methods side by side, each at the same retentions, in one process."""

from trio_profile.analysis.pareto import front
from trio_profile.analysis.summary import CellSummary, DenseSummary, summarise
from trio_profile.schema import FORMAT, VERSION, Dense, Environment, Measurement, Record, Study


class Row(CellSummary):
    """One method at one retention. pareto: none at this retention is both as fast in prefill and as near to dense."""

    pareto: bool = False


class Comparison(Record):
    """What `trio-profile compare --json` prints.

    rows: by retention, the fastest prefill first; then what failed or was refused, with its reason.
    """

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
    dense: DenseSummary | None
    rows: list[Row]
    report: str | None = None

    def at(self, retention: float) -> list[Row]:
        """The rows of one nominal retention that were measured."""
        return [row for row in self.rows if row.nominal_retention == retention and row.status == "done"]

    @property
    def refusals(self) -> list[Row]:
        """What could not be run."""
        return [row for row in self.rows if row.status != "done"]


def compare(study: Study, environment: Environment, dense: Dense | None, measurements: list[Measurement]) -> Comparison:
    """Derive the comparison of a study from its records."""
    document = summarise(study, environment, dense, measurements)
    rows: list[Row] = []
    for retention in sorted(set(study.retentions)):
        cells = [cell for cell in document.cells if cell.nominal_retention == retention and cell.status == "done"]
        cells.sort(key=_speedup, reverse=True)
        judged = [cell for cell in cells if cell.kl_nats is not None]
        best = {
            judged[index].method
            for index in front([(_speedup(cell), cell.kl_nats.median) for cell in judged if cell.kl_nats is not None])
        }
        rows += [Row(**dict(cell), pareto=cell.method in best) for cell in cells]
    rows += [Row(**dict(cell)) for cell in document.cells if cell.status != "done"]
    return Comparison(environment=environment, study=study, dense=document.dense, rows=rows)


def _speedup(cell: CellSummary) -> float:
    return cell.prefill_speedup.median if cell.prefill_speedup is not None else 0.0
