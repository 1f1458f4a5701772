"""The pages of all studies in reports/, in a browser: no cell of a table is clipped, overlapped or out of its box."""

from pathlib import Path

import pytest

from tests.profile.browser import opened
from trio_profile.report import html
from trio_profile.study import running

REPORTS = Path(__file__).parents[3] / "reports"
STUDIES = sorted(str(path.parent.relative_to(REPORTS)) for path in REPORTS.rglob("study.toml"))
HIDDEN_CELLS = """() => {
    const found = [];
    const say = (cell, why) => found.push(`${why}: ${cell.closest(".table").id}: ${cell.innerText}`);
    for (const scroll of document.querySelectorAll(".scroll")) {
        if (!scroll.checkVisibility()) continue;
        scroll.style.contentVisibility = "visible";
        const box = scroll.getBoundingClientRect();
        const folded = scroll.closest("details");
        for (const row of scroll.querySelectorAll("tr")) {
            let end = -Infinity;
            for (const cell of row.cells) {
                if (!cell.checkVisibility() || !cell.innerText.trim()) continue;
                const place = cell.getBoundingClientRect();
                const range = document.createRange();
                range.selectNodeContents(cell);
                const text = range.getBoundingClientRect();
                if (text.left < place.left - 1 || text.right > place.right + 1) say(cell, "wider than its column");
                if (place.left < end - 1) say(cell, "overlapped");
                if (!folded && (text.left < box.left - 1 || text.right > box.right + 1)) say(cell, "out of its box");
                end = place.right;
            }
        }
    }
    return found;
}"""
"""Visible cells whose text cannot be read. A table in a fold may be wider than the page: then it scrolls."""
WIDE = """[...document.querySelectorAll(".scroll")].every((one) => !one.checkVisibility()
    || one.scrollWidth <= one.clientWidth + 1 || (one.classList.contains("wide") && one.scrollLeft === 0))"""
"""Whether each table that is wider than the window shows that it scrolls, and its first columns."""


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_of_every_published_table_can_be_read(browser, tmp_path: Path, study: str):
    page = html.write_page(running.findings(running.read(REPORTS / study)), tmp_path / "page.html")
    assert page.stat().st_size <= 2_500_000
    for width in (1400, 1920):
        with opened(browser, page, width=width, height=900) as view:
            for unfold in (False, True):
                view.scroll_through(unfold=unfold)
                assert "\n".join(view.page.evaluate(HIDDEN_CELLS)) == ""
            assert view.errors == []
    with opened(browser, page, width=390, height=844) as view:
        assert view.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert view.page.evaluate(WIDE)
