"""The releases of transformers that pruning was tested on."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from packaging.version import Version

from trio_core import releases

ROOT = Path(__file__).parents[2]


def test_a_release_is_tested_by_its_first_two_numbers(monkeypatch):
    for version in ("5.23.0", "5.24.3", "5.25.0", "6.0.0", "5.22.2", "5.24.0.dev0"):
        monkeypatch.setattr(releases, "version", version)
        assert releases.is_tested() is (version in ("5.23.0", "5.24.3")), version


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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (name for name in project["optional-dependencies"]["prune"] if name.startswith("transformers"))
    last = Version(releases.TESTED[-1])
    assert requirement == f"transformers>={releases.TESTED[0]},<{last.major}.{last.minor + 1}"


def test_the_page_of_what_is_supported_names_the_tested_releases():
    page = (ROOT / "docs/reference/support.md").read_text()
    assert f"\n{' and '.join(releases.TESTED)} are tested." in page


def test_nightly_ci_tests_each_tested_release_and_the_newest_one():
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    assert workflow["jobs"]["transformers"]["strategy"]["matrix"]["release"] == [*releases.TESTED, ""]


def test_the_installed_release_is_read_once(monkeypatch):
    """Each reading would open files, and `prune` asks each time."""
    release = releases.installed()
    monkeypatch.setattr(sys, "path", [])
    assert releases.installed() == release
