"""The pages of a sweep's report."""

import io

import pytest
from rich.console import Console

from tests.profile.examples import answered, document, failed, measurement, study, with_cpu_times
from trio_profile.analysis.doubt import Doubt
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.findings import cell_tables, sweep
from trio_profile.findings.blocks import Chart, Sentences, Table
from trio_profile.records.schema import Cell
from trio_profile.render import terminal


@pytest.fixture(scope="module")
def several() -> SweepDocument:
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


def tables(found: SweepDocument) -> dict[str, Table]:
    return {
        block.caption: block for page in sweep.report(found).pages for block in page.blocks if isinstance(block, Table)
    }


def test_the_order_of_pages_begins_with_the_verdict(several: SweepDocument):
    pages = [page.id for page in sweep.report(several).pages]
    assert pages == ["verdict", "speed-up", "answers", "work", "cache", "cells", "doubts", "study", "numbers"]


def test_every_page_tells_how_to_read_it(several: SweepDocument):
    for page in sweep.report(several).pages:
        assert page.how_to_read.endswith(".") and page.blocks


def test_every_chart_can_be_told_without_being_seen(several: SweepDocument):
    charts = [block for page in sweep.report(several).pages for block in page.blocks if isinstance(block, Chart)]
    assert len({chart.id for chart in charts}) == len(charts) >= 5
    assert all(chart.label and chart.caption for chart in charts)


def test_the_verdict_has_sentences_a_table_for_each_method_and_the_break_even(several: SweepDocument):
    blocks = sweep.verdict_page(several).blocks
    assert [type(block) for block in blocks] == [Sentences, Sentences, Sentences, Table, Table, Table, Sentences]
    assert [block.colour for block in blocks[:3] if isinstance(block, Sentences)] == [None, 0, 1]
    doubts = blocks[-1]
    assert isinstance(doubts, Sentences) and doubts.tone == "doubt"


def test_a_study_without_a_finished_cell_has_a_verdict():
    first, *_ = sweep.verdict_page(document(measurements=[failed()])).blocks
    assert isinstance(first, Sentences)
    assert first.lines == ["Nothing can be recommended yet: no cell of a method is finished. Controls do not count."]


def test_a_sweep_of_many_methods_has_one_table_of_them():
    asked = study(methods=("trio", "fastv", "grid", "scope", "vtw"), retentions=(0.33, 0.66))
    blocks = sweep.verdict_page(document(asked)).blocks
    [table] = [block for block in blocks if isinstance(block, Table) and "Each method" in block.caption]
    assert [row[0].text for row in table.rows] == list(asked.methods)
    assert {sum(entry.span for entry in row) for row in table.rows} == {len(table.columns)}
    assert list(table.columns[: table.first]) == ["Method", "at", "prefill", "total", "MACs", "KV"]
    assert table.columns[6] == "pays up to"


def test_a_doubted_cell_is_marked_in_every_table_of_cells():
    asked = study(methods=("trio", "fastv"), retentions=(0.33, 0.66))
    doubt = Doubt(
        cell=Cell(method="fastv", retention=0.66), kind="busy", sentence="s", next_step="n", found=2, threshold=1
    )
    page = cell_tables.cells_page(document(asked).model_copy(update={"doubts": [doubt]}))
    assert len(page.blocks) >= 3
    for table in page.blocks:
        assert isinstance(table, Table)
        marked = {row[0].text for row in table.rows if any(entry.doubt == "doubted: busy" for entry in row)}
        assert marked == {"fastv"}, table.caption
        assert sum(bool(entry.doubt) for row in table.rows for entry in row) == 1


def test_every_row_is_as_wide_as_its_table(several: SweepDocument):
    for table in tables(several).values():
        assert {sum(entry.span for entry in row) for row in table.rows} == {len(table.columns)}, table.caption
        assert not table.groups or sum(span for _, span in table.groups) == len(table.columns)


def test_cells_that_never_ran_are_said_to_be_missing():
    found = document(study(retentions=(0.11, 0.22)), [measurement(retention=0.22)])
    texts = [
        entry.text for row in tables(found)["Time: dense and pruned, and their paired ratio"].rows for entry in row
    ]
    assert "not measured yet" in texts


def test_a_failed_cell_has_its_reason_in_the_summary(several: SweepDocument):
    rows = cell_tables.summary(several, "fastv").rows
    assert [row[1].text for row in rows if row[1].span > 1] == ["failed: no <keys>"]


def test_break_evens_have_a_row_for_each_method_and_quantity(several: SweepDocument):
    table = tables(several)["Break-even, as retentions"]
    assert table.columns == ["method", "", "pays up to", "undecided", "costs more from", "curve crosses 1 at"]
    assert table.keys == 2
    assert [(row[0].text, row[1].text, row[1].note) for row in table.rows][:6] == [
        ("trio", "Prefill time", ""),
        ("trio", "Total time", ""),
        ("trio", "MACs by formula", "γ = 1"),
        ("trio", "MACs by formula", "overhead factor as counted"),
        ("trio", "MACs counted", ""),
        ("trio", "KV cache bytes", ""),
    ]
    assert {row[0].text for row in table.rows[6:]} == {"fastv"}


@pytest.fixture(scope="module")
def quizzed() -> SweepDocument:
    unpruned, told = answered([measurement(retention=cell.retention) for cell in study().cells()])
    return document(study(), told, unpruned=unpruned)


def test_the_terminal_shows_the_verdict_and_its_tables_in_80_columns(quizzed: SweepDocument):
    out = io.StringIO()
    terminal.show(sweep.report(quizzed), console=Console(file=out, width=80, highlight=False))
    text = out.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "Pruning with trio pays in prefill:" in text and "Break-even, as retentions" in text
    summary = text[text.index("trio: speed-up") : text.index("Break-even, as")].splitlines()
    header = next(line for line in summary if line.startswith("Retention"))
    assert header.split() == ["Retention", "right", "points", "lost", "prefill", "total", "MACs", "KV"]
    assert "All cells" not in text and text.rstrip().endswith(terminal.HINT)


def test_cpu_time_has_a_table_where_it_was_measured():
    found = document(measurements=[with_cpu_times(measurement())])
    (caption,) = [caption for caption in tables(found) if caption.startswith("CPU time")]
    assert "not the time that a user waits" in caption
    assert tables(found)[caption].rows[0][0].text == "trio"
    assert not any(caption.startswith("CPU time") for caption in tables(document()))


def test_the_verdict_says_how_many_cells_are_doubted():
    found = document(measurements=[measurement().model_copy(update={"reason": "out of memory"})])
    lines = [line for block in sweep.verdict_page(found).blocks if isinstance(block, Sentences) for line in block.lines]
    assert any(line.startswith("Doubts about single cells: 1 of 1 (") for line in lines)


def test_budgets_stand_beside_each_cell(several: SweepDocument):
    table = cell_tables.summary(several, "trio")
    done = [cell for cell in several.cells if cell.method == "trio" and cell.status == "done"]
    kept = [", ".join(map(str, cell.budgets)) for cell in done]
    assert table.columns[-1] == "tokens kept"
    assert [row[-1].text for row in table.rows if len(row) == len(table.columns)] == kept
    titles = [row[0].title for row in table.rows if row[0].title]
    assert titles == [f"keeps {budgets} tokens after layers 1, 10, 15" for budgets in kept]
