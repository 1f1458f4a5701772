"""How this package was installed: the command that adds an extra to it, and whether `trio_core` is its own.

It imports the standard library alone.
"""

import json
import shlex
import shutil
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "trio-profile"
HOME = Path(__file__).absolute().parent.parent
"""The folder of both packages: a clone, or the site-packages of an environment."""
CORE = HOME / "trio_core"
STRANGER = "trio-core"
"""A distribution with a package `trio_core`: another project's on the package index, and an old one of this project."""


def missing_extra(who: str, extra: str, why: object) -> str:
    """Return the sentence of an error: `who` needs an extra, why, and the command that adds it."""
    return f"{who} needs the extra {extra!r} ({why}): {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    return f"{pip('install')} {_requirement(f'[{extra}]')}"


def core_fault() -> str:
    """Return what is wrong with `trio_core`, with the mend, in one line. Empty if it is the one of this distribution.

    The package is not imported.
    """
    spec = find_spec("trio_core")
    origin = spec.origin if spec else None
    own = CORE / "__init__.py"
    is_own = origin is not None and own.is_file() and own.samefile(origin)
    if stranger := next(filter(_is_removable, distributions(name=STRANGER)), None):
        folder = _folder(stranger)
        mend = [f"{pip('uninstall')} {STRANGER}"] + ([_repair_command()] if folder == HOME.resolve() else [])
        return (
            f"{STRANGER} {stranger.version} in {folder} and trio-profile both install a package trio_core, so one "
            f"replaces the other: {' && '.join(mend)}"
        )
    if origin is not None and not is_own:
        return (
            f"trio_core would be imported from {origin}, not from trio-profile's {CORE}: rename that one, or take its "
            "folder off PYTHONPATH"
        )
    return "" if is_own else f"trio-profile's {CORE} lacks files: {_repair_command()}"


def _folder(installed: Distribution) -> Path:
    """The folder that a distribution is installed in."""
    return Path(str(installed.locate_file(""))).resolve()


def _is_removable(installed: Distribution) -> bool:
    """Whether the pip of this environment can remove a distribution. A virtual environment may show others' too."""
    return sys.prefix == sys.base_prefix or _folder(installed).is_relative_to(Path(sys.prefix).resolve())


def _repair_command() -> str:
    """The command that brings the files of this installation back."""
    if _is_clone():
        return f"git -C {shlex.quote(str(HOME))} checkout -- {CORE.name}"
    return f"{pip('install')} --force-reinstall --no-deps {_requirement()}"


def pip(verb: str) -> str:
    """The words that call a verb of pip, or of uv, for the environment of this program."""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None and shutil.which("uv"):
        return f"uv pip {verb} --python {python}"
    first = shutil.which("pip")
    is_ours = first is not None and Path(first).parent.samefile(Path(sys.executable).parent)
    return f"pip {verb}" if is_ours else f"{python} -m pip {verb}"


def _requirement(extras: str = "") -> str:
    """This package as pip is told to install it, quoted for a shell. extras: empty, or names in brackets."""
    if _is_clone():
        return f"-e {shlex.quote(f'{HOME}{extras}')}"
    try:
        where = _origin()
    except (PackageNotFoundError, ValueError, TypeError, KeyError, AttributeError):  # also a record of another form
        where = ""
    if where.startswith("/"):
        return shlex.quote(f"{where}{extras}")
    return shlex.quote(f"{NAME}{extras}{f' @ {where}' if where else ''}")


def _origin() -> str:
    """Where this package was installed from, by its record of PEP 610: a path, or a URL. Empty: a package index."""
    record = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    url: str = record.get("url", "")
    if vcs := record.get("vcs_info"):
        # pip 23 refuses a requirement whose URL has no host
        url = f"{vcs['vcs']}+{url.replace('file:///', 'file://localhost/')}@{vcs['commit_id']}"
    elif url.startswith("file:"):
        path = url2pathname(urlsplit(url).path)
        return path if Path(path).exists() else ""
    folder = record.get("subdirectory", "")
    return url.replace(" ", "%20") + ("#subdirectory=" + folder if folder else "")  # a requirement ends at a space


def _is_clone() -> bool:
    """Whether this code runs from a clone of the repository."""
    try:
        return tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] == NAME
    except (OSError, ValueError, KeyError):
        return False
