"""The report of one prefill's work: what its figure draws is what its document says."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from trio_profile import render as report
from trio_profile.cli import run
from trio_profile.cost.reconciliation import FlopsDocument
from trio_profile.findings import charts as figures
from trio_profile.findings import flops as pages
from trio_profile.findings.blocks import Chart, Sentences, Table
from trio_profile.studies import flops
from trio_profile.studies.plan import make


@pytest.fixture(scope="module")
def document() -> FlopsDocument:
    study = make(model="pocket-deep", device="meta", retentions=(0.33,), new_tokens=2)
    return flops.run(study, dense=False, claim=Decimal("1.5e9"))


def charts(document: FlopsDocument) -> list[Chart]:
    return [block for page in pages.report(document).pages for block in page.blocks if isinstance(block, Chart)]


def test_a_waterfall_ends_at_the_sum():
    figure = figures.waterfall("first", 100, [("more", 50), ("less", -30)], "last")
    (trace,) = figure.data
    assert list(trace.x) == [100, 50, -30, 0]
    assert list(trace.measure) == ["absolute", "relative", "relative", "total"]
    assert [name for name, _ in trace.customdata] == ["first", "more", "less", "last"]
    assert trace.customdata[-1][1] == trace.text[-1] == "120"


def test_the_walk_is_drawn_and_printed_exactly(document: FlopsDocument):
    walk, printed = charts(document)
    drawn = dict(walk.figure.data[0].customdata)
    assert all(term.name in drawn for term in document.terms)
    assert (
        f"{document.counted.torch_flops // 2:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") + " MACs" == drawn["counted"]
    )
    assert printed.figure.data[0].x[0] == 1_500_000_000
    tables = {block.caption for page in pages.report(document).pages for block in page.blocks if type(block) is Table}
    assert tables == {"Exactly", "Counted", "Without a formula"}


def test_without_a_print_there_is_no_page_of_it(document: FlopsDocument):
    bare = document.model_copy(update={"printed": None, "conventions": ()})
    assert "print" not in [page.id for page in pages.report(bare).pages]


def test_an_incomplete_count_is_said_to_be_one(document: FlopsDocument):
    lost = document.uncounted[0].model_copy(update={"op": "foreign::<b>mm", "product": True})
    poor = document.model_copy(update={"complete": False, "uncounted": (lost,)})
    doubts = [block for block in pages.walk_page(poor).blocks if isinstance(block, Sentences) and block.tone == "doubt"]
    assert doubts and "foreign" in doubts[0].lines[0]
    html = report.render(pages.report(poor))
    assert "foreign::<b>" not in html and "foreign::&lt;b&gt;mm" in html


def test_the_verb_keeps_the_document_and_the_report_is_rebuilt_from_it(capsys, tmp_path: Path):
    line = ["flops", "--model", "pocket-deep", "--device", "meta", "--out", str(tmp_path), "--json"]
    assert run(line) == 0
    first = json.loads(capsys.readouterr().out)
    html = Path(first["report"]).read_text()
    assert '"residual_macs":0' in html
    Path(first["report"]).unlink()
    assert run(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert Path(first["report"]).read_text() == html


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "other"}'])
def test_a_document_that_is_not_ours_is_refused_in_one_line(capsys, tmp_path: Path, text: str):
    (tmp_path / "flops.json").write_text(text)
    assert run(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "flops.json" in error and error.count("\n") == 1
