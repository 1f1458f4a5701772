"""The kind `compare`: one document of methods at the same retentions, and its report."""

from collections.abc import Sequence

from trio_profile import units
from trio_profile.judge.accuracy import paired_difference
from trio_profile.judge.controls import CONTROL
from trio_profile.judge.deploy import TOLERATED
from trio_profile.kinds.grid.document import CellSummary, GridDocument
from trio_profile.kinds.grid.page import reminders, report_of
from trio_profile.kinds.grid.sweep import summarise
from trio_profile.quantities import entries
from trio_profile.quantities.entries import NOTHING, Entry
from trio_profile.quantities.quantity import Column
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference
from trio_profile.records.facts import source_of
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Block, Page, Report, Table
from trio_profile.report.table import FURTHER_COLUMNS, by_kind, grid, table


class Row(CellSummary):
    """One method at one retention.

    reference_difference: the method's accuracy minus the reference method's accuracy on the same questions. The
        difference to the dense model is `accuracy_difference`.
    """

    reference_difference: Difference | None = None


class Comparison(GridDocument):
    """The output of `trio-profile compare --json`.

    reference: the method that the other methods are compared with: trio, or the first method if trio is not measured.
    rows: sorted by retention, then by prefill speed-up, the fastest first. Cells that failed or were refused follow.
    pick: as in a sweep.
    """

    reference: str
    rows: list[Row]
    pick: Cell | None = None

    @property
    def summaries(self) -> Sequence[Row]:
        """All rows."""
        return self.rows


def compare(contents: Contents) -> Comparison:
    """Derive the comparison of a study from its records."""
    document, study = summarise(contents), contents.study
    reference = "trio" if "trio" in study.methods else study.methods[0]
    by_cell = {measurement.cell.id: measurement for measurement in contents.measurements}

    def to_reference(cell: CellSummary) -> Difference | None:
        if cell.method == reference or cell.status != "done":
            return None
        other = Cell(method=reference, retention=cell.nominal_retention)
        return paired_difference(by_cell[cell.cell.id], by_cell.get(other.id), contents.dense)

    cells = sorted(document.cells, key=lambda cell: (cell.nominal_retention, -cell.speed))
    done = [cell for cell in cells if cell.status == "done"]
    ordered = [*done, *(cell for cell in document.cells if cell.status != "done")]
    rows = [Row(**dict(cell), reference_difference=to_reference(cell)) for cell in ordered]
    shared = {name: value for name, value in dict(document).items() if name in Comparison.model_fields}
    return Comparison(**shared, reference=reference, rows=rows)


def keeps_answers(cell: CellSummary) -> bool:
    """Return whether a cell loses at most two points of right answers, or whether no answers are known."""
    return cell.accuracy_difference is None or cell.accuracy_difference.value >= -TOLERATED - 1e-12


_LICENCE = Column("licence", lambda row, _: _licence(row.method))
_TRAINED = Column("trained?", lambda row, _: Entry(source["trained"]) if (source := source_of(row.method)) else NOTHING)
_WORK = ("selection", "selection of MACs", "f(n)", "overhead factor")


def report(document: Comparison) -> Report:
    """All pages of a comparison's report."""
    pages = [verdict_page(document), kinds_page(document)]
    ran = len({row.method for row in document.rows if row.status == "done"})
    return report_of(document, units.number_of(ran, "method"), pages)


def verdict_page(document: Comparison) -> Page:
    """All methods and retentions in one table, with their speed and their loss drawn."""
    blocks: list[Block] = [_table(document)] if any(row.status == "done" for row in document.rows) else []
    return Page("verdict", "Verdict", "", [*blocks, *reminders(document)])


def kinds_page(document: Comparison) -> Page:
    """Right answers of each method by kind of question."""
    tables = by_kind(grid(document, document.rows))
    return Page("kinds", "Answers by kind", "", tables, folded="Show the right answers by kind of question")


def _table(document: Comparison) -> Table:
    """All methods at all retentions: those that keep the answers first, the fastest of them on top, controls last."""
    cells = grid(document, sorted(document.rows, key=_place))
    apart = Column(
        f"points to {document.reference}", lambda row, _: entries.points(row.reference_difference), needs_answers=True
    )
    columns = [
        *cells.in_sight,
        _LICENCE,
        "MACs",
        _TRAINED,
        apart,
        *_WORK,
        "tokens kept",
        cells.changed,
        "mean KL, nats",
        *FURTHER_COLUMNS,
    ]
    pick, retentions = document.pick, sorted(document.study.retentions)
    order = f"Sorted by {'retention, then ' * (len(retentions) > 1)}"
    order += f"at most {units.plain(100 * TOLERATED)} points lost first, then " if cells.answered else ""
    return table(
        cells,
        "Speed-up [95 % interval], and cost relative to dense",
        [*dict.fromkeys(columns)],
        ["method", "asked"],
        in_sight="licence",
        most=16,
        switch=1,
        chosen=units.percent(retentions[0] if pick is None else pick.retention),
        order=f"{order}the fastest prefill first. Controls last.",
        drawn=cells.drawn,
    )


def _licence(method: str) -> Entry:
    """Whether the code of a method may be used. Its licence is the tooltip."""
    source = source_of(method)
    if source is None:
        return NOTHING
    licence = source["licence"]
    text = "non-commercial" if "NC" in licence else "none stated" if licence.startswith("none") else "open"
    text = {"control": "ours", "description": "no code"}.get(source["kind"], text)
    return Entry(text, title=licence)


def _place(row: Row) -> tuple[float, bool, bool, float]:
    return row.nominal_retention, row.remark == CONTROL, not keeps_answers(row), -row.speed
