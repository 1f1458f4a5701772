from tests.profile.examples import dense, environment, study
from tests.profile.reading import blocks, too_wide
from trio_profile.judge.planned import Preview, PreviewCell, Refusal
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Table
from trio_profile.report.preview import report


def preview(**fields) -> Preview:
    cell = PreviewCell(
        variant="trio (k_pos = 1)",
        retention=0.11,
        layer_average=0.1101,
        layers=(1, 10, 15),
        budgets=(89, 52, 23),
        fastv_macs=438_000_000_000,
    )
    return Preview(environment=environment(), study=study(), shape=dense().shape, cells=(cell,), **fields)


def test_each_cell_has_its_budgets_and_its_cost():
    (table,) = blocks(report(preview()), Table)
    (row,) = table.rows
    assert [entry.text for entry in row] == [
        *("trio (k_pos = 1)", "11.0 %", "11.01 %", "1, 10, 15", "89, 52, 23", "438 G")
    ]


def test_a_cell_that_cannot_run_is_listed_with_its_reason():
    refused = Refusal(cell=Cell(method="vtw", retention=0.02), reason="retention 0.02 is too low")
    tables = blocks(report(preview(refused=(refused,))), Table)
    assert [entry.text for entry in tables[-1].rows[0]] == ["vtw", "2.0 %", "retention 0.02 is too low"]


def test_it_fits_a_terminal():
    assert not list(too_wide(report(preview(seconds=185.0))))
