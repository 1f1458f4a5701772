"""A browser for the tests that need one. They are skipped where there is none."""

import pytest

from tests.profile.browser import CHROMIUM, MISSING, chromium


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="the package axe-playwright-python is not installed")
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found
