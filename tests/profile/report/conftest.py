"""A browser for the tests that need one. They are skipped where there is none."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import needs
from tests.profile.browser import CHROMIUM, MISSING, View, chromium, opened
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


@pytest.fixture
def show(browser, tmp_path: Path) -> Iterator[Callable[..., View]]:
    """A function that writes a report, or a page of these blocks and a page of doubts, and opens it."""
    with ExitStack() as stack:

        def run(*shown: Report | Block, **settings) -> View:
            doubts = Page("doubts", "Doubts", "", [Sentences("", ["one"])])
            pages = [Page("page", "Page", "How to read.", shown), doubts]
            report = shown[0] if isinstance(shown[0], Report) else Report("all", "kinds", [], pages)
            return stack.enter_context(opened(browser, html.write(report, tmp_path), **settings))

        yield run
