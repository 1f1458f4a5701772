"""The document of `trio-profile ablate`: variants of a method, each compared with the unchanged method.

A variant changes one option of the method. The unchanged method is the default variant of each group.
"""

from collections.abc import Iterator
from itertools import product

from trio_profile.analysis.accuracy import paired_difference
from trio_profile.analysis.cells import CellSummary, summarise_cells
from trio_profile.analysis.grid import GridDocument, fields_of
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Cell, Options, Record

PRINTED: dict[str, dict[str, float]] = {
    "k_pos": {"1": 92.1, "2": 94.6, "3": 94.6, "4": 94.9, "5": 94.9, "6": 94.8, "7": 94.7, "8": 94.8},
    "threshold": {"0.70": 94.6, "0.75": 94.7, "0.80": 94.8, "0.85": 94.4, "0.90": 94.2, "0.95": 93.6, "none": 92.1},
    "layers": {"1, 10, 15": 84.3, "1, 9, 14": 83.9, "1, 11, 16": 84.2},
}
"""The paper's figures for LLaVA-1.5-7B at 64 tokens, by group and variant. For `k_pos` and `threshold` they are the
mean share of the dense scores that is kept, in percent. For `layers` they are the POPE score.
[arXiv 2602.04657, its three tables of ablations; data/claims/trio-2026.yaml]."""


class Row(CellSummary):
    """One variant at one retention.

    variant: name of the variant.
    options: the options that the variant changes, with their new values.
    default: whether this is the unchanged method.
    default_difference: the variant's accuracy minus the unchanged method's accuracy on the same questions. The
        difference to the dense model is `accuracy_difference`.
    printed: the paper's figure for this variant; None if the paper prints none.
    """

    variant: str
    options: Options
    default: bool
    default_difference: Difference | None = None
    printed: float | None = None


class Group(Record):
    """One ablation: the variants of one option.

    rows: sorted by retention, then in the order of the variants.
    """

    name: str
    rows: list[Row]

    def at(self, retention: float) -> list[Row]:
        """The measured rows of one nominal retention."""
        return [row for row in self.rows if row.nominal_retention == retention and row.status == "done"]


class Ablation(GridDocument):
    """The output of `trio-profile ablate --json`.

    groups: the ablations. The unchanged method is measured once and is a row of each group.
    """

    groups: list[Group]

    @property
    def summaries(self) -> list[Row]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]


def ablate(contents: Contents) -> Ablation:
    """Derive the ablations of the study's first method from its records. Cells without a record are left out."""
    study, dense = contents.study, contents.dense
    by_cell = {measurement.cell.id: measurement for measurement in contents.measurements}
    summaries = dict(zip(by_cell, summarise_cells(list(by_cell.values()), study, dense), strict=True))

    def rows_of(group: str, variants: dict[str, Options]) -> Iterator[Row]:
        for retention, (variant, options) in product(sorted(set(study.retentions)), variants.items()):
            cells = (Cell(method=study.methods[0], retention=retention, options=changes) for changes in (options, {}))
            measurement, default = (by_cell.get(cell.id) for cell in cells)
            if measurement is not None:
                yield Row(
                    **dict(summaries[measurement.cell.id]),
                    variant=variant,
                    options=options,
                    default=not options,
                    default_difference=paired_difference(measurement, default, dense) if options else None,
                    printed=PRINTED.get(group, {}).get(variant),
                )

    groups = [Group(name=name, rows=list(rows_of(name, variants))) for name, variants in study.ablations.items()]
    return Ablation(**fields_of(contents), groups=groups)
