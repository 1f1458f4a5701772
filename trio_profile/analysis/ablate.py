"""The document of `trio-profile ablate`: a method with one option changed at a time, held against it as it stands."""

from trio_profile.analysis.accuracy import difference, right
from trio_profile.analysis.sweep import CellSummary, DenseSummary, summarise_cell, summarise_dense
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import FORMAT, VERSION, Cell, Dense, Environment, Measurement, Options, Record, Study

PRINTED: dict[str, dict[str, float]] = {
    "k_pos": {"1": 92.1, "2": 94.6, "3": 94.6, "4": 94.9, "5": 94.9, "6": 94.8, "7": 94.7, "8": 94.8},
    "threshold": {"0.70": 94.6, "0.75": 94.7, "0.80": 94.8, "0.85": 94.4, "0.90": 94.2, "0.95": 93.6, "none": 92.1},
    "layers": {"1, 10, 15": 84.3, "1, 9, 14": 83.9, "1, 11, 16": 84.2},
}
"""What the paper prints for LLaVA-1.5-7B at 64 tokens: of k_pos and threshold the mean share of the dense scores kept,
of layers the score in POPE. [arXiv 2602.04657, its three tables of ablations; data/claims/trio-2026.yaml]."""


class Row(CellSummary):
    """One variant at one retention. options: what it changes; default: nothing, it is the method as it stands.

    default_difference: its accuracy less that of the method as it stands, on the same questions, with a paired
    interval; accuracy_difference is less the dense model's. printed: what the paper has for it, if anything.
    """

    variant: str
    options: Options
    default: bool
    default_difference: Difference | None = None
    printed: float | None = None


class Group(Record):
    """One ablation: its variants, by retention and then in its own order."""

    name: str
    rows: list[Row]

    def at(self, retention: float) -> list[Row]:
        """The rows of one nominal retention that were measured."""
        return [row for row in self.rows if row.nominal_retention == retention and row.status == "done"]


class Ablation(Record):
    """What `trio-profile ablate --json` prints. The method as it stands is a row of every group, measured once."""

    format: str = FORMAT
    version: int = VERSION
    environment: Environment
    study: Study
    dense: DenseSummary | None
    groups: list[Group]
    report: str | None = None

    @property
    def refusals(self) -> list[tuple[Group, Row]]:
        """What could not be run."""
        return [(group, row) for group in self.groups for row in group.rows if row.status != "done"]


def ablate(study: Study, environment: Environment, dense: Dense | None, measurements: list[Measurement]) -> Ablation:
    """Derive the ablations of a study's first method from its records; what was not measured yet is left out."""
    seen = {measurement.cell.id: measurement for measurement in measurements}
    summaries = {key: summarise_cell(measurement, study, dense) for key, measurement in seen.items()}
    shares = {key: right(measurement, dense) for key, measurement in seen.items()}

    def row(group: str, variant: str, options: Options, retention: float) -> Row | None:
        here, stands = (Cell(method=study.methods[0], retention=retention, options=o).id for o in (options, {}))
        if here not in seen:
            return None
        mine, its = shares[here], shares.get(stands)
        return Row(
            **dict(summaries[here]),
            variant=variant,
            options=options,
            default=not options,
            default_difference=difference(mine, its) if options and mine is not None and its is not None else None,
            printed=PRINTED.get(group, {}).get(variant),
        )

    groups = [
        Group(
            name=name,
            rows=[
                found
                for retention in sorted(set(study.retentions))
                for variant, options in variants.items()
                if (found := row(name, variant, options, retention))
            ],
        )
        for name, variants in study.ablations.items()
    ]
    return Ablation(
        environment=environment, study=study, dense=summarise_dense(dense) if dense else None, groups=groups
    )
