"""The kind `ablate`: variants of TRIO, each with its difference to the default, and its report."""

from collections.abc import Iterator
from itertools import product

from trio_profile import units
from trio_profile.cost.printed import ABLATIONS
from trio_profile.judge.accuracy import paired_difference
from trio_profile.kinds.grid.document import CellSummary, GridDocument, fields_of, summarise_cells
from trio_profile.kinds.grid.page import reminders, report_of
from trio_profile.kinds.grid.verdict import conclude_ablation
from trio_profile.quantities import entries
from trio_profile.quantities.quantity import Column, over_dense
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference
from trio_profile.records.schema import Cell, Options, Record
from trio_profile.report.blocks import Entry, Page, Report, Table, Terms
from trio_profile.report.definitions import meanings
from trio_profile.report.table import Key, grid, table


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
                    printed=ABLATIONS.get(group, {}).get(variant),
                )

    groups = [Group(name=name, rows=list(rows_of(name, variants))) for name, variants in study.ablations.items()]
    shared, several = fields_of(contents), len(set(study.retentions)) > 1
    rows = {
        f"{group.name} {row.variant}{f' at {units.percent(row.nominal_retention)}' if several else ''}": row
        for group in groups
        for row in group.rows
    }
    defaults = {row.nominal_retention: row.prefill_speedup for row in rows.values() if row.default}
    answers = {name: row.default_difference for name, row in rows.items() if row.default_difference}
    speeds = {
        name: (row.prefill_speedup, default)
        for name, row in rows.items()
        if not row.default and row.prefill_speedup and (default := defaults.get(row.nominal_retention))
    }
    conclusion = conclude_ablation(contents, shared["doubts"], answers, speeds)
    return Ablation(**shared, groups=groups, conclusion=conclusion)


_TO_DEFAULT = Column("points to default", lambda row, _: entries.points(row.default_difference), needs_answers=True)
_PAPER = Column("paper", lambda row, _: Entry("–" if row.printed is None else units.score(row.printed)))
_MACS = over_dense("MACs", "counted_macs", digits=1)
_VARIANT = Key("variant", lambda _, row: Entry(row.variant, note="default" if row.default else ""))
_PRINTED = (
    "The paper's column is for LLaVA-1.5-7B at 64 tokens: the share of the dense scores kept. "
    "For layers it is of POPE alone."
)


def report(document: Ablation) -> Report:
    """All pages of the report of ablations."""
    texts = meanings("ablations")
    known = [(name, texts.get(name, "One option is changed.")) for name in document.study.ablations]
    changed = Page("groups", "What is changed", "", [Terms("", known, detail=True)], folded="Show what is changed")
    return report_of(document, f"Ablations of {document.study.methods[0]}", [verdict_page(document), changed])


def verdict_page(document: Ablation) -> Page:
    """Which variants differ from the default, and a table of all variants."""
    how = "MACs and KV are relative to dense. Differences are paired by question."
    how += f" {_PRINTED}" if any(row.printed is not None for row in document.summaries) else ""
    return Page("verdict", "Verdict", how, [_table(document), *reminders(document)])


def _table(document: Ablation) -> Table:
    """All variants of all groups: answers, speed and cost."""
    of = {id(row): group.name for group in document.groups for row in group.rows}
    cells = grid(document, document.summaries)
    columns: list[str | Column] = ["prefill", _TO_DEFAULT, "KV", "right", _MACS, "mean KL, nats", "total"]
    columns += ["points lost", cells.changed, "selection of MACs", "tokens kept"]
    columns += [_PAPER] if any(row.printed is not None for row in document.summaries) else []
    keys: list[str | Key] = [Key("ablation", lambda _, row: Entry(of[id(row)])), _VARIANT]
    keys += ["asked"] if len(set(document.study.retentions)) > 1 else []
    drawn = {"prefill": 1.0, _TO_DEFAULT.name: 0.0}
    switch = 0 if len(document.groups) > 1 else None
    return table(
        cells,
        "Each variant beside the default",
        columns,
        keys,
        in_sight="mean KL, nats",
        switch=switch,
        order="In the order in which they were asked.",
        drawn=drawn,
    )
