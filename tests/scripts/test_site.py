"""The site as `make docs` builds it, from a copy of this tree; and in a browser, from its files, without a network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profile.browser import CHROMIUM, MISSING, chromium, opened

ROOT = Path(__file__).parents[2]
COPIED = ("docs", "core", "scripts", "tests", "trio_profile", "reports", ".github")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The built site, and what the script said."""
    pytest.importorskip("zensical")
    place = tmp_path_factory.mktemp("documentation")
    for name in COPIED:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("LICENSE"), *ROOT.glob("*.cff")):
        shutil.copy(path, place)
    done = subprocess.run([sys.executable, "scripts/site"], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return place / "site", done.stdout


def test_the_site_is_built_without_a_warning_and_says_which_blocks_do_not_run(built):
    site, said = built
    assert "every link leads somewhere" in said
    assert "Blocks that do not run, with what they need:" in said and " blocks on " in said
    assert (site / "llms.txt").read_text().startswith("# trio-profile\n\n> ")


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_the_home_page_asks_for_nothing_from_the_network_and_its_search_finds_a_method(built, width, scheme):
    site, _ = built
    with chromium() as browser, opened(browser, site / "index.html", width=width, color_scheme=scheme) as view:
        assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        view.page.keyboard.press("/")
        view.page.get_by_role("combobox").fill("fastervlm")
        view.page.locator("a[href*='reference/methods.html?h=#fastervlm']").wait_for(timeout=10_000)
        assert view.errors == []
        assert [address for address in view.requests if not address.startswith("file:")] == []


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize("name", ["index", "reference/command-line", "reference/python", "how-to/gates"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1400, "dark")])
def test_axe_finds_nothing_serious(built, name, width, scheme):
    site, _ = built
    with chromium() as browser, opened(browser, site / f"{name}.html", width=width, color_scheme=scheme) as view:
        assert view.findings() == []
