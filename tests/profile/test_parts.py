"""Without the optional parts the program works. `scripts/without` leaves out one part at a time."""

import subprocess
import sys
from pathlib import Path

import trio_profile

PACKAGE = Path(trio_profile.__file__).parent
USE = """
import trio_profile
from trio_profile.cli import run
assert run(["--help"]) == run(["sweep", "--help-all"]) == 0
"""


def test_the_help_names_no_part_that_is_deleted(tmp_path):
    (place := tmp_path / "trio_profile").mkdir()
    for path in PACKAGE.iterdir():
        if path.name not in ("extras", "__pycache__"):
            (place / path.name).symlink_to(path)
    command = [sys.executable, "-P", "-c", USE]
    environment = {"PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " sweep " in done.stdout and " serve " not in done.stdout and "--cores" not in done.stdout
