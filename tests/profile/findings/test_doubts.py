"""The report of `check`: each doubt under its cell with the next step, and the tally."""

from tests.profile.examples import failed, measurement, study
from tests.profile.reading import blocks, in_terminal, sentences, too_wide
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.stability import doubts
from trio_profile.findings import doubts as pages
from trio_profile.findings.blocks import Sentences


def test_sound_cells_leave_the_tally_alone():
    cells = [measurement(noise=0.002), failed(retention=0.9)]
    report = pages.report(study(), cells, doubts(study(), cells))
    assert sentences(report) == ["1 cell measured, 1 failed: 0 doubted, 1 sound."]


def test_a_refused_cell_is_not_a_failed_one():
    refused = failed(retention=0.5).model_copy(update={"status": "refused"})
    cells = [measurement(noise=0.002), refused]
    assert pages.tally(cells, []) == "1 cell measured, 1 refused: 0 doubted, 1 sound."
    assert pages.tally([*cells, failed(retention=0.9)], []) == (
        "1 cell measured, 1 refused, 1 failed: 0 doubted, 1 sound."
    )


def test_each_doubt_stands_under_its_cell_with_the_next_step():
    cells = [measurement(noise=0.2, pairs=7, stopped="budget"), measurement(noise=0.002, retention=0.5)]
    found = [doubt for doubt in doubts(study(), cells) if doubt.cell == cells[0].cell]
    report = pages.report(study(), cells, found)
    tally, cell = blocks(report, Sentences)
    assert list(tally.lines) == ["2 cells measured: 1 doubted, 1 sound."]
    assert cell.heading == "trio at 11.0 %" and cell.tone == "doubt" and len(cell.lines) == len(found)
    budget = next(line for line in cell.lines if line.startswith("budget: "))
    assert "7 pairs" in budget and ". Next step: " in budget and budget.endswith(".")
    assert not list(too_wide(report))


def test_a_doubt_about_the_whole_study_doubts_no_single_cell():
    cell = measurement(noise=0.002)
    whole = Doubt(cell=None, kind="cached", sentence="it is", next_step="find it", found=1.2, threshold=0.1)
    report = pages.report(study(), [cell], [whole])
    assert "the whole study" in in_terminal(report) and "0 doubted, 1 sound" in in_terminal(report)
