"""The releases of transformers that pruning was tested on."""

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
    """The one that is imported, whatever the metadata of the environment say."""
    monkeypatch.setattr(releases, "__version__", version)
    assert releases.is_tested() is tested


def test_the_metadata_allows_the_tested_releases_and_no_others():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (requirement,) = (line for line in extras["prune"] if line.startswith("transformers"))
    last = Version(releases.TESTED[-1])
    assert requirement == f"transformers>={releases.TESTED[0]},<{last.major}.{last.minor + 1}"


def test_nightly_ci_tests_each_tested_release_and_the_newest_one():
    workflow = yaml.safe_load((Path(__file__).parents[2] / ".github/workflows/nightly.yml").read_text())
    assert workflow["jobs"]["transformers"]["strategy"]["matrix"]["release"] == [*releases.TESTED, ""]
