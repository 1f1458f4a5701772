"""The site as `make docs` builds it, from a copy of this tree; and in a browser, from its files, without a network."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests import needs
from tests.profile.browser import opened
from tests.profile.report import conftest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "site"))
COPIED = ("docs", "trio_core", "scripts", "tests", "trio_profile", "reports", ".github")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that the processes of one run of the tests share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documentation"


@pytest.fixture(scope="module")
def built(place):
    """The built site, and what the script said."""
    needs.package("zensical", "docs")
    return build_once(place)


def build_once(place: Path) -> tuple[Path, str]:
    """The site in a folder, and what the script said. The first process that comes builds it, and the others wait."""
    said = place / "said.txt"
    with FileLock(f"{place}.lock"):
        if not said.exists():
            said.write_text(build(place))
    return place / "site", said.read_text()


def build(place: Path) -> str:
    """Copy this tree into a folder and build the site there; what the script said."""
    for name in COPIED:
        ignore = shutil.ignore_patterns("__pycache__", "*.safetensors")
        shutil.copytree(ROOT / name, place / name, ignore=ignore, dirs_exist_ok=True)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("LICENSE"), *ROOT.glob("*.cff")):
        shutil.copy(path, place)
    done = subprocess.run([sys.executable, "scripts/site"], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # CI builds it on each push
def test_the_site_is_built_without_a_warning_and_says_which_blocks_do_not_run(built):
    site, said = built
    assert "every link leads somewhere" in said
    assert "Blocks that do not run, with what they need:" in said and " blocks on " in said
    assert (site / "llms.txt").read_text().startswith("# trio-profile\n\n> ")


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    cli()\n    ^^^^^\n'


def test_the_reason_why_the_generator_fails_is_said():
    for code, said, complaint in (
        (0, "Build started\nNo issues found\n", None),
        (0, "Build started\n\x1b[33mWarning:\x1b[0m a page\n", "Build started\nWarning: a page"),
        (1, TRACEBACK, "zensical failed with exit code 1 and said nothing"),
        (1, f"{TRACEBACK}RuntimeError: no theme\n", "RuntimeError: no theme"),
    ):
        assert SCRIPT["complaints"](code, said) == ([complaint] if complaint else [])


browser = conftest.browser


@pytest.mark.slow
def test_the_home_page_asks_for_nothing_from_the_network_and_its_search_finds_a_method(built, browser):
    site, _ = built
    with opened(browser, site / "index.html", width=390, color_scheme="dark") as view:
        assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        view.page.keyboard.press("/")
        box = view.page.get_by_role("combobox")
        box.press_sequentially("fastervlm")
        view.page.locator("a[href*='reference/methods.html?h=fastervlm#fastervlm']").wait_for(timeout=60_000)
        assert box.input_value() == "fastervlm"
        assert view.errors == []
        assert [address for address in view.requests if not address.startswith("file:")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("speed-up too small", "how-to/smaller-speed-up.html"),
        ("FlashAttention", "how-to/troubleshooting.html"),
        ("how long", "how-to/troubleshooting.html"),
        ("OOM", "how-to/troubleshooting.html"),
    ],
)
def test_the_first_page_that_the_search_finds(built, browser, words, name):
    site, _ = built
    with opened(browser, site / "index.html", width=1400) as view:
        view.page.keyboard.press("/")
        view.page.get_by_role("combobox").press_sequentially(words)
        first = view.page.locator("a[href*='?h=']").first
        first.wait_for(timeout=60_000)
        view.page.wait_for_timeout(500)  # the list of the whole query follows that of its first letters
        assert f"/{name}?" in first.get_attribute("href")


@pytest.mark.slow
def test_each_report_of_the_gallery_is_in_the_site(built):
    site, _ = built
    links = SCRIPT["links"].read(site / "gallery.html").links
    reports = [link for link, _ in links if link.startswith("reports/")]
    assert len(reports) > 10 and all((site / link).read_text().startswith("<!") for link in reports)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("index", 390, "light"),
        ("reference/methods", 1400, "dark"),
        ("how-to/gates", 390, "dark"),
        ("how-to/smaller-speed-up", 390, "light"),
        ("gallery", 1400, "dark"),
    ],
)
def test_axe_finds_nothing_serious(built, browser, name, width, scheme):
    site, _ = built
    with opened(browser, site / f"{name}.html", width=width, color_scheme=scheme) as view:
        assert view.findings() == []
