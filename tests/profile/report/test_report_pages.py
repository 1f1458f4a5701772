"""The pages of all studies in reports/, in a browser: no cell of a table is clipped, overlapped or out of its box."""

from pathlib import Path

import pytest

from tests.core.tiny import fast_first
from tests.places import REPORTS
from tests.profile.browser import opened
from tests.profile.reading import in_terminal
from trio_profile.report import html
from trio_profile.study import running

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
IN_SIGHT = """() => {
    const scroll = [...document.querySelectorAll(".scroll")].find((one) => one.checkVisibility());
    scroll.style.contentVisibility = "visible";
    const end = scroll.getBoundingClientRect().right;
    const heads = [...scroll.querySelector("thead tr").cells].filter((cell) => cell.checkVisibility());
    return heads.filter((cell) => cell.getBoundingClientRect().right <= end).map((cell) => cell.textContent);
}"""
"""The columns of the first table that are in sight as the page opens."""
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


LOSSES = [("pocket/compare", "points lost"), ("pocket/ablate", "points to default")]


@pytest.mark.parametrize(("study", "loss"), fast_first(LOSSES, LOSSES[0]))
def test_speed_loss_and_cache_are_in_sight_on_a_phone_and_in_80_columns(browser, tmp_path: Path, study: str, loss: str):
    report = running.findings(running.read(REPORTS / study))
    with opened(browser, html.write_page(report, tmp_path / "page.html"), width=390, height=844) as view:
        assert {"prefill", loss, "KV"} <= {*view.page.evaluate(IN_SIGHT)}
    (head,) = [line for line in in_terminal(report).splitlines() if "prefill" in line and "KV" in line][:1]
    assert loss in head and len(head) <= 80
