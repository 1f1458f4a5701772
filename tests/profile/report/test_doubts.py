"""The report of `show --doubts`: each doubt under its cell with the next step, and the tally."""

from tests.profile.examples import contents_of, in_processes, measurement, rounds_of, study
from tests.profile.reading import blocks, too_wide
from trio_profile.judge.doubts import Doubt, doubts
from trio_profile.records.schema import Cell
from trio_profile.report import doubts as pages
from trio_profile.report.blocks import Sentences


def test_each_doubt_stands_under_its_cell_with_the_next_step():
    broken = in_processes(measurement()).model_copy(update={"reason": "out of memory"})
    cells = [broken, in_processes(measurement(retention=0.5), 6)]
    report = pages.report(study(), cells, doubts(contents_of(study(), cells, sessions=[], rounds=rounds_of(*cells))))
    tally, cell = blocks(report, Sentences)
    assert tally.lines[0].startswith("2 cells measured. 1 of 2 cells is doubted.")
    assert cell.heading == "trio at 11.0 %" and cell.tone == "doubt"
    assert (
        cell.lines[0].startswith("It was measured in ")
        and ". Next step: " in cell.lines[0]
        and cell.lines[0].endswith(".")
    )
    assert not list(too_wide(report))


def doubt(kind: str, cell: Cell | None = None, found: float = 0.2) -> Doubt:
    return Doubt(cell=cell, kind=kind, sentence=f"{kind} found", next_step="wait", found=found, threshold=0.1)


CELLS = [Cell(method="trio", retention=retention / 10) for retention in range(1, 11)]


def test_the_page_of_a_study_shows_the_strongest_doubt_of_each_kind_and_lists_all():
    found = [doubt("sessions"), doubt("busy", CELLS[0]), doubt("busy", CELLS[3], 0.9), doubt("clock", CELLS[1])]
    found += [doubt("clock", CELLS[1], 0.15), doubt("clock", CELLS[2])]
    page = pages.page(found, CELLS)
    _, whole, single, table = page.blocks
    assert list(whole.lines) == ["Sessions found. Next step: wait."]
    assert list(single.lines) == [
        "trio at 40.0 % (and 1 more cell): Busy found. Next step: wait.",
        "trio at 20.0 % (and 1 more cell): Clock found. Next step: wait.",
    ]
    assert len(table.rows) == 5 and table.detail
