"""The README's picture comes from a kept study."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.places import ROOT
from tests.profile.browser import CHROMIUM, MISSING
from trio_profile.studies import running

SCRIPT = ROOT / "scripts" / "hero"
STUDY = ROOT / "reports" / "pocket" / "compare"


@pytest.fixture(scope="module")
def script() -> dict:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def report():
    return running.findings(running.read(STUDY))


def test_the_tokens_are_those_of_the_study(script, report):
    texts = [text for _, text in script["drawings"](report, "trio", 1 / 3)]
    assert texts[0] == "all 576 visual tokens"
    assert len(texts) == 4 and all(text.startswith("trio: kept ") for text in texts[1:])


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.slow
def test_the_script_writes_a_picture(script, report, tmp_path: Path):
    needs.package("kaleido", "export")
    drawn = script["hero"](report, "trio", 1 / 3, ["random"])
    assert drawn.width > 2 * drawn.height
    assert drawn.getpixel((2, 2)) == drawn.getpixel((drawn.width - 3, 2)) == (255, 255, 255)


def test_a_directory_without_a_study_is_one_line(tmp_path: Path):
    command = [sys.executable, SCRIPT, tmp_path, "--out", tmp_path / "a.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("hero: ") and len(done.stderr.splitlines()) == 1
