"""A browser for the tests that need one. They are skipped where there is none."""

import pytest

from tests import needs
from tests.profile.browser import CHROMIUM, MISSING, chromium


@pytest.fixture(scope="module")
def browser():
    needs.package("playwright.sync_api", "dev")
    needs.package("axe_playwright_python", "dev")
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found
