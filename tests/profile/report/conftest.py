"""A browser for the tests that need one. They are skipped where there is none."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import needs
from tests.profile.browser import CHROMIUM, MISSING, View, chromium, window
from trio_profile.report import html
from trio_profile.report.blocks import Block, Page, Report, Sentences


@pytest.fixture(scope="module")
def browser():
    needs.package("playwright.sync_api", "dev")
    needs.package("axe_playwright_python", "dev")
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def shared_window(browser) -> Iterator[View]:
    """The page that all tests of a module open their files in."""
    with window(browser) as view:
        yield view


@pytest.fixture
def show(browser, shared_window: View, tmp_path: Path) -> Iterator[Callable[..., View]]:
    """A function that writes a report, or a page of these blocks and a page of doubts, and opens it.

    context: settings of a window of its own; None opens it in the shared one.
    """
    with ExitStack() as stack:

        def run(*shown: Report | Block, context: dict[str, bool] | None = None, **settings) -> View:
            doubts = Page("doubts", "Doubts", "", [Sentences("", ["one"])])
            pages = [Page("page", "Page", "How to read.", shown), doubts]
            report = shown[0] if isinstance(shown[0], Report) else Report("all", "kinds", [], pages)
            view = stack.enter_context(window(browser, **context)) if context else shared_window
            view.open(html.write_page(report, tmp_path / "report.html"), **settings)
            return view

        yield run
