"""What a browser makes of a page: figures, tables, tips, print, and what axe says about it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests import needs
from tests.core.tiny import fast_first
from tests.profile.browser import View, opened
from tests.profile.examples import document, study
from trio_profile.findings import sweep
from trio_profile.findings.blocks import (
    Axis,
    Block,
    Chart,
    Confidence,
    Entry,
    Page,
    Report,
    Sentences,
    Series,
    Step,
    Table,
    Terms,
    Upright,
    Waterfall,
)
from trio_profile.render import drawing, html
from trio_profile.render.palette import INK, PALETTE

HOSTILE = "</script ><img src=x onerror=\"throw Error('in')\"><a href='http://x.test'>&amp;"
Open = Callable[..., View]


@pytest.fixture
def show(browser, tmp_path: Path) -> Iterator[Open]:
    """A function that writes a report, or a page of these blocks, and opens it."""
    with ExitStack() as stack:

        def run(*shown: Report | Block, **settings) -> View:
            report = shown[0] if isinstance(shown[0], Report) else page_of(*shown)
            return stack.enter_context(opened(browser, html.write(report, tmp_path), **settings))

        yield run


def page_of(*blocks: Block) -> Report:
    """A report of one page with these blocks, and a page of doubts."""
    doubts = Page("doubts", "Doubts", "", [Sentences("", ["one"])])
    return Report("all", "kinds", [], [Page("page", "Page", "", blocks), doubts])


def swept(*methods: str) -> Report:
    return sweep.report(document(study(methods=methods, retentions=(0.11, 0.55, 0.99))))


def charts_of(report: Report) -> list[Chart]:
    return [block for page in report.pages for block in page.blocks if isinstance(block, Chart)]


# Figures


def test_figures_are_drawn_when_they_come_into_view(show: Open):
    report = swept("trio", HOSTILE)
    view = show(replace(report, model=HOSTILE), height=400)
    assert view.page.locator(".drawing .main-svg").count() < 3 * len(charts_of(report))
    view.scroll_through()
    for chart in charts_of(report):
        place = view.page.locator(f"[id='figure-{chart.id}']")
        assert place.locator("g.trace.scatter").count() == len(drawing.figure(chart)["data"]), chart.id
        assert "NaN" not in place.inner_html()
    assert view.errors == [] and view.requests == []


def test_names_that_look_like_markup_stay_text(show: Open):
    view = show(replace(swept(HOSTILE), model=HOSTILE, subject=HOSTILE, banner=HOSTILE))
    view.scroll_through()
    assert view.page.locator("img, a[href*='x.test']").count() == 0
    assert HOSTILE in view.page.locator("h1").inner_text() and view.errors == []


def test_every_kind_of_axis_mark_and_waterfall_is_drawn(show: Open):
    points = Series("points", [0, 1], [0.01, 10], ["one\ntwo"] * 2, [0.005, 5], [0.02, 20], band=False, line=None)
    marked = [replace(points, marker=marker, labels=["a", "b"]) for marker in ("diamond", "square", "ring")]
    view = show(
        Chart("names", "", "", Axis("", names=["a", HOSTILE]), Axis("nats", 0.001, 100, log=True), [points, *marked]),
        Chart(
            "free", "", "", Axis("x"), Axis("y", log=True), [points], levels=[1], uprights=[Upright(0.5, text="here")]
        ),
        Waterfall("walk", "", "", Step("first", 100, "100"), [Step(HOSTILE, -30, "-30")], Step("last", 70, "70")),
    )
    view.scroll_through()
    counts = [view.page.locator(f"#figure-{name} g.trace").count() for name in ("names", "free", "walk")]
    assert counts == [4, 1, 1] and view.errors == []
    assert "NaN" not in view.page.locator("main").inner_html()


def test_a_figure_follows_the_width_of_its_column(show: Open):
    view = show(swept("trio"), width=1280)
    view.scroll_through()
    drawn = view.page.locator("#figure-prefill .main-svg").first
    assert 400 < drawn.bounding_box()["width"] < 640
    view.page.set_viewport_size({"width": 390, "height": 900})
    view.wait("document.querySelector('#figure-prefill .main-svg').clientWidth < 380")


def test_in_a_narrow_waterfall_the_names_stand_above_the_bars(show: Open):
    names = ["the claim of the paper, as printed", "layers that are not pruned", "what was counted"]
    walk = Waterfall("walk", "", "", Step(names[0], 100, "100"), [Step(names[1], -30, "-30")], Step(names[2], 70, "70"))
    view = show(walk, width=390)
    view.scroll_through()
    assert view.page.locator("#figure-walk .annotation").count() == 3
    assert view.page.locator("#figure-walk .ytick").count() == 0
    bar = view.page.locator("#figure-walk .trace.bars path").first.bounding_box()
    label = view.page.locator("#figure-walk .annotation").first.bounding_box()
    assert bar["width"] > 200 and label["y"] + label["height"] <= bar["y"] + 2
    view.page.set_viewport_size({"width": 1000, "height": 900})
    view.wait("document.querySelectorAll('#figure-walk .ytick').length === 3")
    assert view.page.locator("#figure-walk .annotation").count() == 0


def test_labels_that_lie_upon_others_are_hidden(show: Open):
    points = Series("a", [1, 1.01, 50], [1, 1.01, 50], labels=["first", "second", "third"], line=None)
    view = show(Chart("labels", "", "", Axis("x", 0, 100), Axis("y", 0, 100), [points]))
    view.scroll_through()
    assert [label.text_content() for label in view.page.locator(".textpoint text:visible").all()] == ["first", "third"]


# The picker

METHODS = ("trio", "fastv", "vtw")


def picked() -> Chart:
    """Three methods, of which the last two are quiet."""
    series = [
        Series(
            name, [10, 90], [1 + number, 2 + number], ["first", "second"], colour=number, group=name, quiet=number > 0
        )
        for number, name in enumerate(METHODS)
    ]
    return Chart("pareto", "Pareto", "label", Axis("x", 0, 100), Axis("y", 0, 5), series, picker=True)


def colours(view: View) -> list[str]:
    """The colour of each line of the figure, as #rrggbb."""
    found = view.page.locator("#figure-pareto .js-line").evaluate_all(
        "(lines) => lines.map((line) => getComputedStyle(line).stroke)"
    )
    return ["#{:02x}{:02x}{:02x}".format(*map(int, text[4:-1].split(","))) for text in found]


def test_quiet_methods_are_grey_until_they_are_picked(show: Open):
    view = show(picked())
    view.scroll_through()
    assert colours(view) == [PALETTE[0], INK, INK]
    view.page.get_by_label("fastv").check()
    view.page.locator("h1").hover()
    assert colours(view) == [PALETTE[0], PALETTE[1], INK]
    view.page.get_by_label("trio").uncheck()
    view.page.locator("h1").hover()
    assert colours(view) == [INK, PALETTE[1], INK]
    view.page.get_by_role("button", name="all").click()
    assert colours(view) == list(PALETTE[:3])
    view.page.get_by_role("button", name="none").click()
    assert colours(view) == [INK] * 3 and view.errors == []


def test_a_quiet_method_has_its_colour_while_it_is_pointed_at(show: Open):
    view = show(picked())
    view.scroll_through()
    view.page.locator("label", has_text="vtw").hover()
    assert colours(view) == [PALETTE[0], INK, PALETTE[2]]
    view.page.locator("h1").hover()
    assert colours(view) == [PALETTE[0], INK, INK]
    view.page.locator("#figure-pareto .trace").nth(1).locator("path.point").first.hover(force=True)
    view.wait(
        f"getComputedStyle(document.querySelectorAll('#figure-pareto .js-line')[1]).stroke === '{rgb(PALETTE[1])}'"
    )


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


# Tables


def sorted_table() -> Table:
    held = ["800 KiB", "2.118 MiB", "–", "9 B", "1 TiB"]
    loss = ["−3.0", "+1.5", "2.1 × 10⁻⁴", "−12", "0"]
    names = ["m10", "m9", "m2", "m1", "m30"]
    rows = [
        [Entry(name), Entry(size), Entry(points), Entry("x", order=-number)]
        for number, (name, size, points) in enumerate(zip(names, held, loss, strict=True))
    ]
    rows.insert(1, [Entry("m0"), Entry("failed: no memory", tone="absent", span=3)])
    return Table("sizes", ["Method", "KV", "points", "order"], rows)


def column(view: View, number: int = 0) -> list[str]:
    return view.page.locator(f"tbody tr > :nth-child({number + 1})").all_inner_texts()


@pytest.mark.parametrize(
    ("name", "rising", "falling"),
    [
        ("KV", "m1 m10 m9 m30 m0 m2", "m30 m9 m10 m1 m0 m2"),  # without a value: at the end, in the table's order
        ("points", "m1 m10 m30 m2 m9 m0", "m9 m2 m30 m10 m1 m0"),
        ("Method", "m0 m1 m2 m9 m10 m30", "m30 m10 m9 m2 m1 m0"),
        ("order", "m30 m1 m2 m9 m10 m0", "m10 m9 m2 m1 m30 m0"),
    ],
)
def test_a_table_is_sorted_by_any_column(show: Open, name: str, rising: str, falling: str):
    view = show(sorted_table())
    before = column(view)
    button = view.page.get_by_role("button", name=name, exact=True)
    button.click()
    assert column(view) == rising.split()
    assert view.page.locator("th[aria-sort=ascending]").inner_text() == name
    button.focus()
    view.page.keyboard.press("Enter")
    assert column(view) == falling.split()
    assert view.page.locator("th[aria-sort=descending]").count() == 1
    view.page.keyboard.press("Enter")
    assert column(view) == before and view.page.locator("th[aria-sort=none]").count() == 4


def folded() -> Table:
    row = [Entry("trio"), Entry("1.5×", title="[1.4, 1.6]"), Entry("9 GiB"), Entry("12 J")]
    failed = [Entry("fastv"), Entry("failed: no memory", tone="absent", span=3)]
    return Table("speed", ["Method", "prefill", "peak", "energy"], [row, failed], [("", 1), ("All", 3)], first=2)


def test_more_columns_are_shown_on_demand(show: Open):
    view = show(folded())
    button = view.page.get_by_role("button", name="more columns")
    assert button.get_attribute("aria-expanded") == "false"
    assert not view.page.get_by_text("9 GiB").is_visible()
    assert view.page.locator("td.absent").evaluate("(entry) => entry.colSpan") == 1
    button.click()
    assert view.page.get_by_text("9 GiB").is_visible() and view.page.get_by_text("12 J").is_visible()
    assert view.page.locator("td.absent").evaluate("(entry) => entry.colSpan") == 3
    fewer = view.page.get_by_role("button", name="fewer columns")
    assert fewer.get_attribute("aria-expanded") == "true"
    fewer.press("Enter")
    assert not view.page.get_by_text("9 GiB").is_visible()


def test_rows_are_chosen_by_a_switch_and_by_a_word(show: Open):
    rows = [
        [Entry(f"method {n}", "control", colour=n), Entry(f"{at} %"), Entry("1×")] for n in range(4) for at in (11, 22)
    ]
    view = show(Table("cells", ["Method", "Retention", "prefill"], rows, keys=2, switch=1, chosen="22 %"))
    shown = view.page.locator("tbody tr:visible")
    assert shown.count() == 4 and "11 %" not in view.page.locator("tbody").inner_text()
    view.page.get_by_role("button", name="all").click()
    assert shown.count() == 8
    view.page.get_by_role("searchbox").fill("METHOD 3")
    assert shown.count() == 2
    view.page.emulate_media(media="print")
    assert shown.count() == 8


def wide(number: int = 3) -> Table:
    names = ["Method", "Retention", *(f"quantity {place}" for place in range(14))]
    rows = [
        [Entry(f"method-{row}", colour=row), Entry("11.1 %"), *(Entry("1.234×", "[1.2, 1.3]") for _ in range(14))]
        for row in range(number)
    ]
    return Table("wide", names, rows, keys=2)


@pytest.mark.parametrize("width", [390, 1280])
def test_columns_that_name_a_row_stay_in_sight(show: Open, width: int):
    view = show(wide(), width=width)
    keys = [view.page.locator(f"tbody tr:first-child th:nth-child({number})") for number in (1, 2)]
    before = [key.bounding_box()["x"] for key in keys]
    scroll = view.page.locator(".scroll")
    view.page.wait_for_selector(".scroll.wide")
    scroll.evaluate("(part) => part.scrollTo(400, 0)")
    assert [key.bounding_box()["x"] for key in keys] == pytest.approx(before, abs=1)
    assert view.page.locator("tbody tr:first-child td").first.bounding_box()["x"] < before[1]


# What an entry tells


def told(view: View) -> str | None:
    """What the tip says; None if it is hidden."""
    tip = view.page.locator(".tip")
    return tip.inner_text() if tip.is_visible() else None


def titled() -> Table:
    rows = [[Entry(name), *(Entry("86 %", title=f"{name} {column}") for column in "ab")] for name in ("trio", "fastv")]
    rows[0][2] = replace(rows[0][2], doubt="doubted: busy machine")
    return Table("right", ["Method", "a", "b"], rows)


def test_the_keyboard_reaches_what_an_entry_tells(show: Open):
    view = show(titled())
    view.page.locator(".scroll").focus()
    found = []
    for key in ("Tab", "ArrowRight", "ArrowDown", "ArrowLeft", "Escape"):
        view.page.keyboard.press(key)
        found.append(told(view))
    assert found == ["trio a", "trio b", "fastv b", "fastv a", None]


def test_a_touch_tells_what_an_entry_tells(show: Open):
    view = show(titled(), width=390, has_touch=True)
    view.page.locator("tbody td").nth(3).tap()
    assert told(view) == "fastv b"
    box = view.page.locator(".tip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    view.page.locator("h1").tap()
    assert told(view) is None


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


def test_a_doubted_entry_leads_to_the_doubts_and_says_why(show: Open):
    view = show(titled())
    mark = view.page.get_by_role("link", name="doubted: busy machine")
    mark.focus()
    assert told(view) == "doubted: busy machine"
    mark.click()
    assert view.page.url.endswith("#doubts")


def test_the_first_touch_of_a_mark_tells_the_reason(show: Open):
    view = show(titled(), has_touch=True)
    mark = view.page.get_by_role("link", name="doubted: busy machine")
    mark.tap()
    assert told(view) == "doubted: busy machine" and "#" not in view.page.url
    mark.tap()
    assert view.page.url.endswith("#doubts")


# The whole page


def everything() -> Report:
    """A sweep with all that a page can hold beside it."""
    report = swept("trio", "fastv")
    blocks = [picked(), sorted_table(), folded(), wide(60), titled()]
    extra = Page("extra", "Extra", "How to read.", blocks)
    badge = Confidence("medium", "one of six cells is doubted")
    return replace(report, pages=[extra, *report.pages], banner="The model is a toy.", confidence=[badge])


@pytest.mark.parametrize(("width", "scheme"), fast_first([(390, "light"), (1280, "dark")], 390))
def test_axe_has_no_serious_finding(show: Open, width: int, scheme: str):
    view = show(everything(), width=width, color_scheme=scheme)
    view.scroll_through()
    assert view.findings() == []


def test_axe_finds_something_on_a_poor_page(browser, tmp_path: Path):
    (tmp_path / "poor.html").write_text('<html><div role="img" aria-label="a"><a href="#">b</a></div></html>')
    with opened(browser, tmp_path / "poor.html") as view:
        assert any("nested-interactive" in one for one in view.findings())


@pytest.mark.parametrize("width", fast_first([320, 390, 1400], 390))
def test_nothing_is_wider_than_the_window(show: Open, width: int):
    view = show(everything(), width=width)
    view.scroll_through()
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_banner_and_the_confidence_stand_on_top(show: Open):
    view = show(everything())
    assert view.page.locator("header .banner").inner_text() == "The model is a toy."
    said = view.page.locator("main .confidence")
    assert "Confidence: medium" in said.inner_text() and "one of six cells is doubted" in said.inner_text()
    said.get_by_role("link").click()
    assert view.page.url.endswith("#doubts")


def test_all_figures_are_on_paper_and_no_table_is_cut(show: Open):
    view = show(everything(), width=688, height=400)  # A4 without its margins
    view.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    view.page.emulate_media(media="print")
    missing = "[...document.querySelectorAll('.drawing')].filter((place) => !place.querySelector('.main-svg')).length"
    assert view.page.evaluate(missing) == 0
    cut = view.page.locator(".scroll").evaluate_all(
        "(parts) => parts.filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.innerText)"
    )
    assert cut == []


@pytest.mark.slow
def test_printing_draws_every_figure(show: Open, tmp_path: Path):
    view = show(everything(), height=400)
    view.page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    drawn = view.page.locator(".drawing").evaluate_all(
        "(places) => places.map((place) => place.querySelector('.main-svg') !== null)"
    )
    assert all(drawn) and view.errors == []


def test_the_head_of_a_table_stands_on_each_sheet(show: Open, tmp_path: Path):
    pypdfium2 = needs.package("pypdfium2", "dev")
    view = show(wide(120))
    view.page.pdf(path=tmp_path / "page.pdf", format="A4")
    sheets = [sheet.get_textpage().get_text_range() for sheet in pypdfium2.PdfDocument(tmp_path / "page.pdf")]
    assert len(sheets) > 2 and all("Retention" in sheet for sheet in sheets if "method-" in sheet)


def test_a_page_without_scripts_shows_every_column_and_every_number(show: Open):
    view = show(folded(), java_script_enabled=False)
    assert view.page.get_by_text("9 GiB").is_visible()
    assert view.page.locator("td[title]").first.get_attribute("title") == "[1.4, 1.6]"
    assert not view.page.get_by_role("button", name="more columns").is_visible()


def test_an_error_of_a_script_is_noticed(browser, tmp_path: Path):
    (tmp_path / "page.html").write_text("<script>throw Error('seen')</script>")
    with opened(browser, tmp_path / "page.html") as view:
        assert any("seen" in error for error in view.errors)
