"""The page of the kept tokens: what it says, and which methods it shows first."""

from dataclasses import replace

from tests.profile.examples import contents_of, dense, document, kept, measurement, picture, study
from tests.profile.reading import in_terminal
from trio_core import methods
from trio_profile.inputs.picture import UNPLACED
from trio_profile.kinds.grid import compare as comparing
from trio_profile.kinds.grid import sweep
from trio_profile.kinds.grid.compare import compare
from trio_profile.kinds.grid.document import CellTokens, TokenMaps
from trio_profile.kinds.grid.kind import CONTROLS
from trio_profile.kinds.grid.page import tokens_page
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.records.schema import Cell, KeptTokens, Measurement
from trio_profile.report.blocks import Page, Report, Tokens


def of_cell(method: str, retention: float, found: KeptTokens, **options) -> CellTokens:
    return CellTokens(cell=Cell(method=method, retention=retention, options=options), realised=retention, kept=found)


def shown(*cells: CellTokens, **fields) -> SweepDocument:
    methods = tuple(dict.fromkeys(one.cell.method for one in cells)) or ("trio",)
    maps = TokenMaps(picture=picture(**fields), cells=cells)
    return document(study(methods), []).model_copy(update={"tokens": maps})


def page_of(found: SweepDocument) -> Page:
    page = tokens_page(found)
    assert page is not None
    return page


def block_of(found: SweepDocument) -> Tokens:
    block = page_of(found).blocks[0]
    assert isinstance(block, Tokens)
    return block


def test_each_map_says_how_many_tokens_stay_at_each_stage():
    block = block_of(shown(of_cell("trio", 0.11, kept(6, 3, 1)), of_cell("trio", 0.22, kept(9, 9, 9))))
    assert [one.text for one in block.maps] == [
        "trio at 11.0 %: kept 6 after layer 1, 3 after layer 10, 1 after layer 15, of 9 tokens.",
        "trio at 22.0 %: kept 9 after layer 1, 9 after layer 10, 9 after layer 15, of 9 tokens.",
    ]
    first = block.maps[0].stages[0]
    assert (first.text, first.kept, first.low, first.high) == (
        "kept 6 of 9 after layer 1",
        b"\1" * 6 + b"\0" * 3,
        "1",
        "9",
    )
    assert first.scores[0] == 254 and first.scores[8] == 0
    assert block.maps[0].stages[1].scores == b""


def test_a_study_without_grids_says_why_and_an_old_study_has_no_page():
    page = page_of(shown(image="", grids=(), reason=UNPLACED))
    assert page.blocks == [] and UNPLACED in page.empty
    assert tokens_page(document(study(), [])) is None
    assert "tokens" not in [page.id for page in sweep.report(document(study(), [])).pages]


def test_the_tokens_open_on_the_recommended_retention():
    maps = TokenMaps(picture=picture(), cells=tuple(of_cell("trio", share, kept()) for share in (0.11, 0.33)))
    found = document(study(retentions=(0.11, 0.33))).model_copy(update={"tokens": maps})
    pick = found.pick
    assert pick is not None and block_of(found).at == pick.retention


def test_a_comparison_shows_the_reference_first_and_controls_last():
    def measured(method: str) -> Measurement:
        remark = methods.find(method).reference.remark
        return measurement(method, 0.3).model_copy(update={"remark": remark})

    asked = study(("random", "fastv", "trio", "downsample", "grid"), retentions=(0.3,), verb="compare")
    found = compare(contents_of(asked, [measured(method) for method in asked.methods], dense()))
    maps = TokenMaps(picture=picture(), cells=tuple(of_cell(method, 0.3, kept()) for method in asked.methods))
    found = found.model_copy(update={"tokens": maps})
    (page,) = [page for page in comparing.report(found).pages if page.id == "tokens"]
    assert page.blocks[0].methods == ["trio", "fastv", "random", "downsample"]
    assert set(CONTROLS) == {"random", "downsample"}


def test_a_method_that_misses_the_lowest_retention_is_not_among_the_first():
    cells = [of_cell(method, 0.11, kept()) for method in "acde"]
    found = shown(of_cell("b", 0.22, kept()), *cells)
    assert block_of(found).methods == ["a", "c", "d", "e"]


def test_the_terminal_shows_the_page_only_if_everything_is_asked_for():
    found = shown(of_cell("trio", 0.11, kept()))
    report = Report("trio", "model", [], [replace(page_of(found))])
    assert "Tokens" not in in_terminal(report)
    text = in_terminal(report, everything=True)
    assert "trio at 11.0 %: kept 6 after layer 1" in text and max(map(len, text.splitlines())) <= 80
