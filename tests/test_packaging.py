"""pyproject.toml agrees with constraints.txt, with the nightly workflow, and with the commands of the documentation."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text().replace("_", "-"), re.MULTILINE))
REQUIREMENTS = [Requirement(line) for lines in (PROJECT["dependencies"], *EXTRAS.values()) for line in lines]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*.md"), *ROOT.glob(".github/**/*.*")]


def test_the_pins_are_allowed():
    pinned = [(each, PINS[each.name]) for each in REQUIREMENTS if each.name in PINS]
    assert {"torch", "transformers", "nvidia-ml-py"} <= {each.name for each, _ in pinned}
    assert [str(each) for each, pin in pinned if not each.specifier.contains(pin)] == []


def test_every_release_of_transformers_that_is_allowed_is_tested_each_night():
    (transformers,) = (each for each in REQUIREMENTS if each.name == "transformers")
    bounds = {each.operator: int(each.version.removeprefix("5.")) for each in transformers.specifier}
    allowed = [f"5.{minor}" for minor in range(bounds[">="], bounds["<"])]
    newest = ""
    assert WORKFLOWS["nightly"]["jobs"]["transformers"]["strategy"]["matrix"]["release"] == [*allowed, newest]


def test_every_kind_but_the_main_one_and_every_extra_is_left_out_each_night():
    parts = {
        path.parent.name for room in ("kinds", "extras") for path in ROOT.glob(f"trio_profile/{room}/*/__init__.py")
    }
    assert {*WORKFLOWS["nightly"]["jobs"]["without"]["strategy"]["matrix"]["part"]} == parts - {"grid"}


def test_the_nightly_workflow_runs_the_command_of_the_readme():
    steps = [step.get("run", "") for step in WORKFLOWS["nightly"]["jobs"]["pip"]["steps"]]
    assert "grep '^pip install' README.md | bash -ex" in steps
    commands = re.findall(r"^pip install.*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["pip install -c constraints.txt '.[run]'"]


def test_every_command_that_installs_this_package_names_extras_that_exist():
    lines = [line for path in PAGES for line in re.findall(r"pip install\b[^`\n]*", path.read_text())]
    assert [line for line in lines if "trio_core" in line or "trio-core" in line] == []
    named = {name for line in lines for names in re.findall(r"\.\[([\w,-]+)\]", line) for name in names.split(",")}
    assert {"run", "serve"} <= named <= {*EXTRAS}
