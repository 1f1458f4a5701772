"""The document of `trio-profile ablate`: variants of a method, each compared with the unchanged method.

A variant changes one option of the method. The unchanged method is the default variant of each group.
"""

from collections.abc import Iterator
from itertools import product

from trio_profile.inputs.variants import PRINTED
from trio_profile.judge.accuracy import paired_difference
from trio_profile.kinds.grid.cells import CellSummary, summarise_cells
from trio_profile.kinds.grid.document import GridDocument, fields_of
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Cell, Options, Record


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
