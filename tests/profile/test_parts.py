"""Optional parts can be deleted."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

import trio_profile

PACKAGE = Path(trio_profile.__file__).parent
STUDY = PACKAGE.parent / "reports" / "pocket" / "compare"
USE = """
import sys, trio_profile
from trio_profile.cli import run
assert trio_profile.__path__ == [sys.argv[1] + "/trio_profile"]
for arguments in (["--help"], ["sweep", "--help-all"]):
    assert run(arguments) == 0
sys.stdout = open(sys.argv[1] + "/shown", "w")
assert run(["report", sys.argv[1] + "/study"]) == 0
"""


OFFERS = {"ray": "--cores", "theory": "theory", "serve": " serve "}
"""Each part with a word of the help that it brings."""


@pytest.mark.parametrize("gone", ["all", *(pytest.param(part, marks=pytest.mark.slow) for part in OFFERS)])
def test_the_command_line_works_without_a_part(gone, tmp_path):
    left = [part for part in OFFERS if gone not in (part, "all")]
    extras = tmp_path / "trio_profile" / "extras"
    extras.mkdir(parents=True)
    links = {
        extras.parent / path.name: path for path in PACKAGE.iterdir() if path.name not in ("extras", "__pycache__")
    }
    links |= {extras / name: PACKAGE / "extras" / name for name in ("__init__.py", *left)}
    for link, path in links.items():
        link.symlink_to(path)
    copytree(STUDY, tmp_path / "study")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    arguments = [sys.executable, "-P", "-c", USE, str(tmp_path)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {part for part, word in OFFERS.items() if word in done.stdout} == set(left)
