"""Optional parts and kinds can be deleted: the others work without an edit elsewhere."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

import trio_profile

PACKAGE = Path(trio_profile.__file__).parent
STUDIES = {"grid": "pocket/compare", "theory": "pocket/theory"}
"""A published study of a kind in each of two folders. The first one that is there is read."""
USE = """
import sys, trio_profile
from trio_profile.cli import run
assert trio_profile.__path__ == [sys.argv[1] + "/trio_profile"]
for arguments in (["--help"], [sys.argv[2], "--help-all"]):
    assert run(arguments) == 0
sys.stdout = open(sys.argv[1] + "/shown", "w")
assert run(["report", sys.argv[1] + "/study"]) == 0
"""
OFFERS = {
    "extras": {"ray": "--cores", "serve": " serve "},
    "kinds": {
        "grid": "│ sweep ",
        "evaluation": "│ eval ",
        "servers": "│ endpoints ",
        "flops": "│ flops ",
        "layers": "│ layers ",
        "theory": "│ theory ",
    },
}
"""Each part with a word of the help that it brings. `audit` and `gate` have verbs of their own in `cli/`."""
ONE_BY_ONE = [(room, part) for room, parts in OFFERS.items() for part in parts]


@pytest.mark.parametrize(
    ("room", "gone"), [("extras", "all"), *(pytest.param(*part, marks=pytest.mark.slow) for part in ONE_BY_ONE)]
)
def test_the_command_line_works_without_a_part(room, gone, tmp_path):
    place = tmp_path / "trio_profile" / room
    place.mkdir(parents=True)
    links = {place.parent / path.name: path for path in PACKAGE.iterdir() if path.name not in (room, "__pycache__")}
    kept = [path for path in (PACKAGE / room).iterdir() if path.name not in (gone, "__pycache__")]
    links |= {place / path.name: path for path in kept if gone != "all" or path.name == "__init__.py"}
    for link, path in links.items():
        link.symlink_to(path)
    kind = next(folder for folder in STUDIES if folder != gone)
    copytree(PACKAGE.parent / "reports" / STUDIES[kind], tmp_path / "study")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    verb = "sweep" if kind == "grid" else "theory"
    done = subprocess.run(
        [sys.executable, "-P", "-c", USE, str(tmp_path), verb], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = {part for part, word in OFFERS[room].items() if word in done.stdout}
    assert told == {part for part in OFFERS[room] if gone not in (part, "all")} - (
        {"ray"} if verb == "flops" else set()
    )
