"""The releases of transformers that pruning was tested on."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from trio_core import releases


@pytest.mark.parametrize(
    ("version", "tested"),
    (
        ("5.23.0", True),
        ("5.24.3", True),
        ("5.25.0", False),
        ("6.0.0", False),
        ("5.22.2", False),
        ("5.24.0.dev0", False),
    ),
)
def test_a_release_is_tested_by_its_first_two_numbers(monkeypatch, version, tested):
    monkeypatch.setattr(releases, "version", version)
    assert releases.is_tested() is tested


def test_the_release_is_that_of_the_code_which_runs(tmp_path):
    """A clone of transformers on PYTHONPATH has no metadata; those of the environment are another release's."""
    package = tmp_path / "transformers"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "5.99.0"')
    program = "from trio_core.releases import installed; print(installed())"
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.stdout == "5.99\n", done.stderr


def test_the_metadata_allows_the_tested_releases_and_no_others():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (requirement,) = (line for line in extras["prune"] if line.startswith("transformers"))
    last = Version(releases.TESTED[-1])
    assert requirement == f"transformers>={releases.TESTED[0]},<{last.major}.{last.minor + 1}"


def test_the_page_of_what_is_supported_names_the_tested_releases():
    page = (Path(__file__).parents[2] / "docs/reference/support.md").read_text()
    assert f"\n{' and '.join(releases.TESTED)} are tested." in page


def test_nightly_ci_tests_each_tested_release_and_the_newest_one():
    workflow = yaml.safe_load((Path(__file__).parents[2] / ".github/workflows/nightly.yml").read_text())
    assert workflow["jobs"]["transformers"]["strategy"]["matrix"]["release"] == [*releases.TESTED, ""]


def test_the_installed_release_is_read_once(monkeypatch):
    """Each reading would open files, and `prune` asks each time."""
    release = releases.installed()
    monkeypatch.setattr(sys, "path", [])
    assert releases.installed() == release
