"""What a browser makes of a page: figures, tables, tips, print, and what axe says about it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import needs
from tests.core.tiny import fast_first
from tests.profile.browser import View, opened
from tests.profile.examples import document, study
from trio_profile.kinds.grid import sweep
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.records.conclusion import Conclusion
from trio_profile.report import drawing, html
from trio_profile.report.blocks import (
    Axis,
    Chart,
    Entry,
    Page,
    Report,
    Series,
    Step,
    Table,
    Terms,
    Waterfall,
)

HOSTILE = "</script ><img src=x onerror=\"throw Error('in')\"><a href='http://x.test'>&amp;"
Open = Callable[..., View]


def swept(*methods: str) -> Report:
    return sweep.report(document(study(methods=methods, retentions=(0.11, 0.99))))


# Figures


@pytest.mark.slow
def test_figures_are_drawn_when_they_come_into_view_and_names_that_look_like_markup_stay_text(show: Open):
    report = replace(swept("trio", HOSTILE), model=HOSTILE, subject=HOSTILE, banner=HOSTILE)
    charts = [block for page in report.pages for block in page.blocks if isinstance(block, Chart)]
    view = show(report, height=400)
    assert view.page.locator(".drawing .main-svg").count() < 3 * len(charts)
    view.scroll_through()
    for chart in charts:
        place = view.page.locator(f"[id='figure-{chart.id}']")
        assert place.locator("g.trace.scatter").count() == len(drawing.figure(chart)["data"]), chart.id
        assert "NaN" not in place.inner_html()
    assert view.page.locator("img, a[href*='x.test']").count() == 0
    assert HOSTILE in view.page.locator("h1").inner_text()
    assert view.errors == [] and view.requests == []


CHART = Chart("line", "Line", "label", Axis("x", 0, 100), Axis("y", 0, 5), [Series("trio", [10, 90], [1, 2], colour=0)])
STEPS = ("the claim of the paper, as printed", "layers that are not pruned", HOSTILE)


@pytest.fixture(scope="module")
def figures(browser, tmp_path_factory) -> Iterator[View]:
    """A page with a figure of every kind, all drawn. A test leaves its size as it was."""
    points = Series("points", [0, 1], [0.01, 10], ["one\ntwo"] * 2, [0.005, 5], [0.02, 20], line=None)
    alone = replace(points, low=[], high=[])
    blocks = [
        Chart("names", "", "", Axis(HOSTILE), Axis("nats", 0.001, 100, log=True), [points]),
        Chart("free", "", "", Axis("x"), Axis("y", log=True), [alone], levels=[1], uprights=[0.5]),
        Waterfall("walk", "", "", Step(STEPS[0], 100, "100"), [Step(STEPS[1], -30, "-30")], Step(STEPS[2], 70, "70")),
    ]
    report = Report("all", "kinds", [], [Page("page", "Page", "", blocks)])
    with opened(browser, html.write_page(report, tmp_path_factory.mktemp("figures") / "report.html")) as view:
        view.scroll_through()
        yield view


@pytest.mark.slow
def test_every_kind_of_axis_mark_and_waterfall_is_drawn(figures: View):
    counts = [figures.page.locator(f"#figure-{name} g.trace").count() for name in ("names", "free", "walk")]
    assert counts == [2, 1, 1] and figures.errors == []
    assert "NaN" not in figures.page.locator("main").inner_html()


def test_a_figure_follows_the_width_of_its_column_and_a_narrow_waterfall_has_names_above_its_bars(figures: View):
    page = figures.page
    assert 400 < page.locator("#figure-names .main-svg").first.bounding_box()["width"] < 640
    page.set_viewport_size({"width": 390, "height": 900})
    figures.wait("document.querySelector('#figure-names .main-svg').clientWidth < 380")
    figures.wait("document.querySelectorAll('#figure-walk .annotation').length === 3")
    assert page.locator("#figure-walk .ytick").count() == 0
    bar = page.locator("#figure-walk .trace.bars path").first.bounding_box()
    label = page.locator("#figure-walk .annotation").first.bounding_box()
    assert bar["width"] > 200 and label["y"] + label["height"] <= bar["y"] + 2
    page.set_viewport_size({"width": 1280, "height": 900})
    figures.wait("document.querySelectorAll('#figure-walk .ytick').length === 3")
    assert page.locator("#figure-walk .annotation").count() == 0


# Tables


def sorted_table() -> Table:
    held = ["800 KiB", "2.118 MiB", "–", "9 B", "1 TiB"]
    loss = ["−3.0", "+1.5", "2.1 × 10⁻⁴", "−12", "0"]
    names = ["m10", "m9", "m2", "m1", "m30"]
    rows = [
        [Entry(name), Entry(size), Entry(points), Entry("x", order=-number)]
        for number, (name, size, points) in enumerate(zip(names, held, loss, strict=True))
    ]
    rows.insert(1, [Entry("m0"), *[Entry("no memory", tone="absent")] * 3])
    return Table("sizes", ["Method", "KV", "points", "order"], rows, order="As asked.")


def column(view: View, number: int = 0) -> list[str]:
    return view.page.locator(f"tbody tr > :nth-child({number + 1})").all_inner_texts()


def test_a_table_is_sorted_by_any_column(show: Open):
    view = show(sorted_table())
    before = column(view)
    for name, rising, falling in (
        ("KV", "m1 m10 m9 m30 m0 m2", "m30 m9 m10 m1 m0 m2"),  # without a value: at the end, in the table's order
        ("points", "m1 m10 m30 m2 m9 m0", "m9 m2 m30 m10 m1 m0"),
        ("Method", "m0 m1 m2 m9 m10 m30", "m30 m10 m9 m2 m1 m0"),
        ("order", "m30 m1 m2 m9 m10 m0", "m10 m9 m2 m1 m30 m0"),
    ):
        button = view.page.get_by_role("button", name=name, exact=True)
        button.click()
        assert column(view) == rising.split()
        assert view.page.locator("th[aria-sort=ascending]").inner_text() == name
        button.focus()
        view.page.keyboard.press("Enter")
        assert column(view) == falling.split()
        assert view.page.locator("th[aria-sort=descending]").count() == 1
        assert view.page.locator(".order").inner_text() == f"Sorted by {name}, descending."
        view.page.keyboard.press("Enter")
        assert view.page.locator(".order").inner_text() == "As asked."
        assert column(view) == before and view.page.locator("th[aria-sort=none]").count() == 4


def drawn_table() -> Table:
    values = [(2.0, (1.5, 2.5)), (0.5, (0.25, 1.0)), (3.0, (1.0, 60.0))]
    rows = [[Entry("trio"), Entry(str(at), order=at, bounds=ends, colour=1)] for at, ends in values]
    return Table("drawn", ["Method", "prefill"], rows, drawn={"prefill": 1.0})


def test_whiskers_share_the_scale_of_their_column(show: Open):
    view = show(drawn_table())
    boxes = "(parts) => parts.map((part) => part.getBoundingClientRect()).map(({ left, width }) => left + width / 2)"
    slow, fast = sorted(view.page.locator("td .dot").evaluate_all(boxes))[::2]
    marks = view.page.locator("td .dot").evaluate_all(boxes)
    assert (marks[0] - slow) / (fast - slow) == pytest.approx(0.6, abs=0.02)
    assert view.page.locator(".range .high").count() == 1 and view.page.locator(".range .low").count() == 0
    assert view.page.locator("td .dot.square").count() == 3 and view.findings() == []


def folded() -> Table:
    row = [Entry("trio"), Entry("1.5×", title="[1.4, 1.6]"), Entry("9 GiB"), Entry("12 J")]
    return Table("speed", ["Method", "prefill", "peak", "energy"], [row], first=2)


def test_more_columns_are_shown_on_demand(show: Open):
    view = show(folded())
    button = view.page.get_by_role("button", name="more columns")
    assert button.get_attribute("aria-expanded") == "false"
    assert not view.page.get_by_text("9 GiB").is_visible()
    button.click()
    assert view.page.get_by_text("9 GiB").is_visible() and view.page.get_by_text("12 J").is_visible()
    fewer = view.page.get_by_role("button", name="fewer columns")
    assert fewer.get_attribute("aria-expanded") == "true"
    fewer.press("Enter")
    assert not view.page.get_by_text("9 GiB").is_visible()


def test_rows_are_chosen_by_a_switch_and_by_a_word_and_the_column_of_the_switch_is_hidden(show: Open):
    rows = [
        [Entry(f"method {n}", "control", colour=n), Entry(f"{at} %"), Entry("1×")] for n in range(4) for at in (11, 22)
    ]
    view = show(Table("cells", ["Method", "Retention", "prefill"], rows, keys=2, switch=1, chosen="22 %"))
    shown = view.page.locator("tbody tr:visible")
    head = view.page.locator("thead").get_by_text("Retention")
    assert shown.count() == 4 and "11 %" not in view.page.locator("tbody").inner_text() and not head.is_visible()
    view.page.get_by_role("button", name="all").click()
    assert shown.count() == 8 and head.is_visible()
    view.page.get_by_role("searchbox").fill("METHOD 3")
    assert shown.count() == 2
    view.page.get_by_role("button", name="11 %").click()
    assert not head.is_visible()
    view.page.emulate_media(media="print")
    assert shown.count() == 8 and head.is_visible()


def wide(number: int = 3) -> Table:
    names = ["Method", "Retention", *(f"quantity {place}" for place in range(14))]
    rows = [
        [Entry(f"method-{row}", colour=row), Entry("11.1 %"), *(Entry("1.234×", "[1.2, 1.3]") for _ in range(14))]
        for row in range(number)
    ]
    return Table("wide", names, rows, keys=2)


def test_columns_that_name_a_row_stay_in_sight(show: Open):
    view = show(wide(), width=390)
    keys = [view.page.locator(f"tbody tr:first-child th:nth-child({number})") for number in (1, 2)]
    before = [key.bounding_box()["x"] for key in keys]
    scroll = view.page.locator(".scroll")
    view.page.wait_for_selector(".scroll.wide")
    scroll.evaluate("(part) => part.scrollTo(400, 0)")
    assert [key.bounding_box()["x"] for key in keys] == pytest.approx(before, abs=1)
    assert view.page.locator("tbody tr:first-child td").first.bounding_box()["x"] < before[1]


def further(view: View) -> str:
    """What a page says of the columns and rows that are out of sight."""
    return " | ".join(filter(None, view.page.locator(".further").all_inner_texts()))


def test_a_table_says_how_many_columns_and_rows_are_out_of_sight_and_nothing_if_it_is_whole(show: Open):
    view = show(sorted_table(), folded())
    assert further(view) == "" and view.page.locator(".cut, .cut-below").count() == 0
    view = show(wide(60), width=390)
    view.wait("document.querySelector('.further').textContent !== ''")
    scroll = view.page.locator(".scroll")
    hidden = """(scroll) => {
        const end = scroll.getBoundingClientRect();
        const boxes = (name) => [...scroll.querySelectorAll(name)].map((one) => one.getBoundingClientRect());
        return [
            boxes("th[scope=col]").filter(({ right }) => right > end.right + 1).length,
            boxes("tbody tr").filter(({ bottom }) => bottom > end.bottom + 1).length,
        ];
    }"""
    columns, rows = scroll.evaluate(hidden)
    assert columns > 10 and rows > 30
    assert further(view) == f"scroll for {columns} more columns and {rows} more rows"
    assert "cut" in scroll.get_attribute("class").split() and "cut-below" in scroll.get_attribute("class").split()
    scroll.evaluate("(part) => part.scrollTo(9999, 9999)")
    view.wait("document.querySelector('.further').textContent === ''")
    assert "cut" not in scroll.get_attribute("class").split()


# What an entry tells


def told(view: View) -> str | None:
    """What the tip says; None if it is hidden."""
    tip = view.page.locator(".tip")
    return tip.inner_text() if tip.is_visible() else None


def titled() -> Table:
    rows = [[Entry(name), *(Entry("86 %", title=f"{name} {column}") for column in "ab")] for name in ("trio", "fastv")]
    rows[0][2] = replace(rows[0][2], doubt="doubted: busy machine")
    return Table("right", ["Method", "a", "b"], rows)


def test_the_keyboard_reaches_what_an_entry_tells_and_the_reason_of_a_doubt(show: Open):
    view = show(titled())
    view.page.locator(".scroll").focus()
    found = []
    for key in ("Tab", "ArrowRight", "ArrowDown", "ArrowLeft", "Escape"):
        view.page.keyboard.press(key)
        found.append(told(view))
    assert found == ["trio a", "trio b", "fastv b", "fastv a", None]
    mark = view.page.get_by_role("link", name="doubted: busy machine")
    mark.focus()
    assert told(view) == "doubted: busy machine"
    mark.click()
    assert view.page.url.endswith("#doubts")


def test_a_touch_tells_what_an_entry_tells_and_the_first_touch_of_a_mark_its_reason(show: Open):
    view = show(titled(), width=390, context={"has_touch": True})
    view.page.locator("tbody td").nth(3).tap()
    assert told(view) == "fastv b"
    box = view.page.locator(".tip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    view.page.locator("h1").tap()
    assert told(view) is None
    mark = view.page.get_by_role("link", name="doubted: busy machine")
    mark.tap()
    assert told(view) == "doubted: busy machine" and "#" not in view.page.url
    mark.tap()
    assert view.page.url.endswith("#doubts")


def test_the_head_of_a_column_tells_what_its_word_means(show: Open):
    rows = [[Entry(name), Entry("1.5×"), Entry("2")] for name in ("trio", "fastv", "grid")]
    view = show(
        Table("sorted", ["Method", "prefill", "b"], rows), Terms("", [("prefill", "more")], {"prefill": "a pass"})
    )
    head = view.page.locator("thead th").nth(1)
    head.hover()
    assert told(view) == "a pass" and head.get_attribute("aria-description") == "a pass"
    view.page.locator("h1").hover()
    assert told(view) is None
    view.page.get_by_role("button", name="prefill").focus()
    assert told(view) == "a pass"
    assert view.page.locator("#page-prefill dt").inner_text() == "prefill"


# The data


@pytest.mark.parametrize("longest_plain", [0, html.LONGEST_PLAIN], ids=["packed", "plain"])
def test_the_keyboard_saves_the_rows_and_the_document_of_a_page(show: Open, monkeypatch, longest_plain: int):
    monkeypatch.setattr(html, "LONGEST_PLAIN", longest_plain)
    rows = f'method,note\ntrio,"{HOSTILE}\n"\n'
    report = replace(swept("trio"), csv=rows)
    view = show(report)
    saved = {}
    for form in ("CSV", "JSON"):
        with view.page.expect_download() as download:
            view.page.get_by_role("button", name=f"Save the data as {form}").press("Enter")
        saved[download.value.suggested_filename] = Path(download.value.path()).read_text(encoding="utf-8")
    name = f"trio-on-{report.model}"
    assert saved[f"{name}.csv"] == rows
    assert SweepDocument.model_validate_json(saved[f"{name}.json"]) == SweepDocument.model_validate_json(report.data)
    view.page.emulate_media(media="print")
    assert view.page.get_by_role("button", name="Save the data").count() == 0 and view.errors == []


def test_a_page_without_rows_has_no_button_for_them_and_one_without_data_none(show: Open):
    assert show(swept("trio")).page.locator("[data-save]").all_inner_texts() == ["JSON"]
    assert show(titled()).page.locator("[data-save]").count() == 0


# The whole page


def everything() -> Report:
    """A sweep with all that a page can hold beside it."""
    report = swept("trio", "fastv")
    blocks = [CHART, sorted_table(), drawn_table(), folded(), wide(), titled()]
    extra = Page("extra", "Extra", "How to read.", blocks)
    conclusion = Conclusion(word="try", sentence="trio.", sureness="medium", reasons=("one of six cells is doubted",))
    return replace(report, pages=[extra, *report.pages], banner="The model is a toy.", conclusion=conclusion)


@pytest.mark.parametrize(("width", "scheme"), fast_first([(390, "light"), (320, "dark"), (1400, "dark")], 390))
def test_nothing_is_wider_than_the_window_and_axe_finds_nothing(show: Open, width: int, scheme: str):
    view = show(everything(), width=width, color_scheme=scheme)
    assert view.page.locator("header .banner, main .conclusion").count() == 2
    view.scroll_through()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.findings() == []


def test_no_table_is_cut_on_paper(show: Open):
    view = show(sorted_table(), folded(), wide(60), titled(), width=688, height=400)  # A4 without its margins
    view.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    view.page.emulate_media(media="print")
    cut = view.page.locator(".scroll").evaluate_all(
        "(parts) => parts.filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.innerText)"
    )
    assert cut == []


def test_a_wide_table_is_printed_in_parts_with_every_column_and_the_columns_that_name_a_row(show: Open):
    names = ["Method", *(f"quantity {place}" for place in range(40))]
    rows = [[Entry(f"method-{row}"), *(Entry("715 573 920", "[1.23, 1.34]") for _ in range(40))] for row in range(4)]
    view = show(Table("all", names, rows, first=3), width=688, height=400)
    view.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    view.page.emulate_media(media="print")
    parts = view.page.locator("table:visible")
    heads = [parts.nth(number).locator("thead th").all_inner_texts() for number in range(parts.count())]
    assert parts.count() == 3 and all(head[0] == "Method" for head in heads)
    assert [name for head in heads for name in head[1:]] == names[1:]
    assert all(parts.nth(number).bounding_box()["width"] <= 688 for number in range(parts.count()))
    view.page.emulate_media(media="screen")
    view.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert view.page.locator("table").count() == 1 and view.page.locator("table thead th:visible").count() == 3


@pytest.mark.slow
def test_a_print_has_every_figure_and_the_head_of_a_table_on_each_sheet(show: Open, tmp_path: Path):
    pypdfium2 = needs.package("pypdfium2", "dev")
    pages = [Page("page", "Page", "", [wide(120)]), Page("more", "More", "", [CHART], folded="Show it")]
    view = show(Report("all", "kinds", [], pages))
    assert view.page.locator(".drawing .main-svg").count() == 0
    view.page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert view.page.locator(".drawing .main-svg").count() > 0 and view.errors == []
    sheets = [sheet.get_textpage().get_text_range() for sheet in pypdfium2.PdfDocument(tmp_path / "page.pdf")]
    assert len(sheets) > 2 and all("Retention" in sheet for sheet in sheets if "method-" in sheet)


@pytest.mark.slow
def test_a_page_without_scripts_shows_every_column_and_every_number(show: Open):
    view = show(folded(), context={"java_script_enabled": False})
    assert view.page.get_by_text("9 GiB").is_visible()
    assert view.page.locator("td[title]").first.get_attribute("title") == "[1.4, 1.6]"
    assert not view.page.get_by_role("button", name="more columns").is_visible()
