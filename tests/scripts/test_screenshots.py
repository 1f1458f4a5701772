"""`scripts/screenshots`: a picture of each page, and one line where something is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.profile.browser import CHROMIUM, MISSING
from trio_profile.report import html
from trio_profile.report.blocks import Axis, Chart, Page, Report, Sentences, Series

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "screenshots"


def screenshots(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_directory_without_a_report_is_named(tmp_path: Path):
    found = screenshots(tmp_path, "--out", tmp_path / "out")
    assert found.returncode == 2 and not (tmp_path / "out").exists()
    assert found.stderr.strip() == (
        f"screenshots: {tmp_path / 'report.html'} does not exist; write it with trio-profile report {tmp_path}"
    )


def of_two_pages(directory: Path) -> None:
    """Write a report with two pages, of which the first has a chart."""
    chart = Chart("line", "", "", Axis("x"), Axis("y"), [Series("a", [1, 2], [1, 2])])
    pages = [Page("first", "First", "", [Sentences("", ["one"]), chart]), Page("second", "Second", "", [])]
    html.write_page(Report("a", "b", [], pages), directory / "report.html")


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.slow
def test_each_page_has_a_picture_of_each_width_and_scheme(tmp_path: Path):
    needs.package("playwright.sync_api", "dev")
    of_two_pages(tmp_path)
    found = screenshots(tmp_path, "--out", tmp_path / "out")
    assert found.returncode == 0, found.stderr
    looks = [f"{width}-{scheme}.png" for width in (390, 1400) for scheme in ("light", "dark")]
    named = {f"{page}-{look}" for page in ("00-top", "01-first", "02-second") for look in looks}
    assert {path.name for path in (tmp_path / "out").iterdir()} == named | {"report.pdf"}
    assert all(path.stat().st_size > 1000 for path in (tmp_path / "out").iterdir())


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").iterdir()), ids=lambda path: path.name)
def test_the_pictures_of_the_documents_are_small_and_shown(picture: Path):
    assert picture.suffix == ".png" and picture.stat().st_size < 250_000
    shown = (ROOT / "README.md").read_text() + (ROOT / "docs" / "how-to" / "reading-a-report.md").read_text()
    assert f"pictures/{picture.name}" in shown
