"""How trio-profile was installed. The tests make folders of packages, and ask a Python that sees no others."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.tiny import fast_first
from tests.places import PYTHONPATH
from trio_profile import installation

ASK = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
sys.prefix = sys.argv[2] or sys.prefix
from trio_profile.installation import core_fault, install_command
print(eval(sys.argv[3]))
assert "trio_core" not in sys.modules
"""
PIP = f"{shlex.quote(sys.executable)} -m pip"


def distribution(folder: Path, name: str, version: str = "1.1.5") -> Path:
    """The metadata of a distribution in a folder."""
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return metadata


def package(folder: Path, text: str = "") -> Path:
    """A package `trio_core` in a folder."""
    (folder / "trio_core").mkdir(parents=True, exist_ok=True)
    (folder / "trio_core" / "__init__.py").write_text(text)
    return folder


@pytest.fixture
def site(tmp_path) -> Path:
    """The site-packages of an environment with trio-profile and pip. Its path has a space."""
    site = package(tmp_path / "my env" / "site")
    (site / "trio_profile").mkdir()
    (site / "trio_profile" / "__init__.py").touch()
    shutil.copy(str(installation.__file__), site / "trio_profile")
    (site / "pip.py").touch()
    distribution(site, "trio_profile", "0.2.0")
    return site


def ask(*path: Path, expression: str, prefix: str | Path = "", programs: str | Path = "") -> str:
    """The value of an expression in a Python that sees these folders and its own library, and no other package.

    prefix: the virtual environment that this Python says it is in.
    programs: PATH.
    """
    command = [sys.executable, "-I", "-S", "-c", ASK, json.dumps([*map(str, path)]), str(prefix), expression]
    done = subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- the command that adds an extra ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "'trio-profile[run]'"),
        ({"url": "file://SITE/x.whl", "archive_info": {}}, "'SITE/x.whl[run]'"),
        ({"url": "file://SITE", "dir_info": {}}, "'SITE[run]'"),
        ({"url": "file:///gone/x.whl", "archive_info": {}}, "'trio-profile[run]'"),
        ({"url": "https://host/x.whl", "archive_info": {}}, "'trio-profile[run] @ https://host/x.whl'"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "c0"}},
            "'trio-profile[run] @ git+https://host/x.git@c0'",
        ),
        (
            {"url": "file:///a b/x", "vcs_info": {"vcs": "git", "commit_id": "c0"}, "subdirectory": "sub"},
            "'trio-profile[run] @ git+file://localhost/a%20b/x@c0#subdirectory=sub'",
        ),
    ],
)
def test_the_command_names_the_place_that_the_package_came_from(origin, requirement, site):
    (site / "x.whl").touch()
    if origin:
        text = json.dumps(origin | {"url": origin["url"].replace("SITE", str(site).replace(" ", "%20"))})
        (site / "trio_profile-0.2.0.dist-info" / "direct_url.json").write_text(text)
    expected = f"{PIP} install {requirement}".replace("SITE", str(site))
    assert ask(site, expression="install_command('run')") == expected


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[1]",
        '{"url": 5}',
        '{"url": null, "vcs_info": {}}',
        '{"url": "https://host/x.git", "vcs_info": {"vcs": "git"}}',
        '{"url": "https://host/x.git", "vcs_info": "git"}',
        '{"url": "https://host/x.whl", "subdirectory": 5}',
    ],
)
def test_a_record_that_no_installer_writes_is_passed_over(text, site):
    (site / "trio_profile-0.2.0.dist-info" / "direct_url.json").write_text(text)
    assert ask(site, expression="install_command('run')") == f"{PIP} install 'trio-profile[run]'"


@pytest.mark.parametrize("text", ["", "{", "[project]\nname = 'another'"])
def test_the_command_names_the_clone_that_the_code_runs_from(text, site):
    (site / "pyproject.toml").write_text(text)  # of another project
    assert ask(site, expression="install_command('run')") == f"{PIP} install 'trio-profile[run]'"
    (site / "pyproject.toml").write_text("[project]\nname = 'trio-profile'")
    assert ask(site, expression="install_command('run')") == f"{PIP} install -e '{site}[run]'"


def program(place: Path) -> Path:
    """An empty program."""
    place.parent.mkdir(exist_ok=True)
    place.touch(0o755)
    return place.parent


def test_the_command_is_for_this_environment(site, tmp_path):
    other, uv = program(tmp_path / "other" / "pip"), program(tmp_path / "uv" / "uv")
    beside_python = Path(sys.executable).parent
    assert shutil.which("pip", path=str(beside_python))
    asked = {"expression": "install_command('run').partition(' install')[0]"}
    assert ask(site, programs=beside_python, **asked) == "pip"
    assert ask(site, programs=f"{other}{os.pathsep}{uv}{os.pathsep}{beside_python}", **asked) == PIP
    (site / "pip.py").unlink()
    assert ask(site, programs=other, **asked) == PIP  # it says that pip is missing
    expected = f"uv pip install --python {sys.executable} 'trio-profile[run]'"
    assert ask(site, programs=uv, expression="install_command('run')") == expected


# --- a trio_core that is not ours ------------------------------------------------------------------------------------

IMPORTED = "raise SystemExit('it was imported')"
REPAIR = f"{PIP} install --force-reinstall --no-deps trio-profile"


def test_the_own_trio_core_has_no_fault(site, tmp_path):
    assert ask(site, expression="core_fault()") == ""
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "trio_core").symlink_to(site / "trio_core")
    assert ask(tmp_path / "linked", site, expression="core_fault()") == ""


def test_a_distribution_trio_core_in_the_same_folder_is_named_with_the_repair(site):
    distribution(site, "trio_core")
    package(site, IMPORTED)
    assert ask(site, expression="core_fault()") == (
        f"trio-core 1.1.5 in {site} and trio-profile both install a package trio_core, so one replaces the other: "
        f"{PIP} uninstall trio-core && {REPAIR}"
    )


@pytest.mark.parametrize("first", [True, False])
def test_a_distribution_trio_core_beside_a_clone_is_named(first, site, tmp_path):
    other = package(tmp_path / "other", IMPORTED)
    distribution(other, "trio_core", "0.1.dev9")
    said = ask(*((other, site) if first else (site, other)), expression="core_fault()")
    assert said.startswith(f"trio-core 0.1.dev9 in {other} and trio-profile both")
    assert said.endswith(f": {PIP} uninstall trio-core")


def test_a_stranger_outside_a_virtual_environment_is_named_only_if_it_would_be_imported(site, tmp_path):
    other = package(tmp_path / "other", IMPORTED)
    distribution(other, "trio_core")
    assert ask(site, other, expression="core_fault()", prefix=site.parent) == ""
    said = ask(other, site, expression="core_fault()", prefix=site.parent)
    assert said.startswith(f"trio_core would be imported from {other}/trio_core/__init__.py")
    assert "uninstall" not in said  # pip would refuse it


def test_a_package_of_no_distribution_is_named(site, tmp_path):
    other = package(tmp_path / "other", IMPORTED)
    said = f"trio_core would be imported from {other}/trio_core/__init__.py, not from trio-profile's {site}/trio_core: "
    assert ask(other, site, expression="core_fault()").startswith(said)
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "trio_core.py").write_text(IMPORTED)
    assert "/third/trio_core.py, not from" in ask(tmp_path / "third", site, expression="core_fault()")


def test_a_trio_core_that_lost_its_files_is_named(site):
    (site / "trio_core" / "__init__.py").unlink()
    assert ask(site, expression="core_fault()") == f"trio-profile's {site}/trio_core lacks files: {REPAIR}"
    (site / "pyproject.toml").write_text("[project]\nname = 'trio-profile'")
    assert ask(site, expression="core_fault()").endswith(f": git -C '{site}' checkout -- trio_core")
    shutil.rmtree(site / "trio_core")
    assert "lacks files" in ask(site, expression="core_fault()")


def command(stranger: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The program beside a stranger."""
    return subprocess.run(
        [sys.executable, "-m", "trio_profile", *arguments],
        cwd=stranger,
        env={**os.environ, "PYTHONPATH": f"{stranger}{os.pathsep}{PYTHONPATH}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("verb", "word"),
    fast_first([("sweep", "error"), ("serve pocket", "error"), ("env", "warning")], "sweep"),
)
def test_the_program_names_a_stranger_and_never_imports_it(verb, word, tmp_path):
    distribution(package(tmp_path, IMPORTED), "trio_core")
    done = command(tmp_path, *verb.split())
    assert done.returncode == (2 if word == "error" else 0) and (word == "warning" or done.stdout == "")
    assert done.stderr.startswith(f"trio-profile: {word}: trio") and str(tmp_path) in done.stderr.splitlines()[0]
