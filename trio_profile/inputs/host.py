"""The machine, the software and the command of a session. Nothing here imports torch."""

import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any
from uuid import uuid4

from trio_profile.records.schema import Environment, FileDigest, Session


def session(
    environment: Environment, inputs: Mapping[str, FileDigest] | None = None, *, command: str = "", **more: Any
) -> Session:
    """Return the session that this process opens now.

    environment: the machine, from `facts` or from `inputs/environment.py`.
    inputs: the digests of the files that are measured.
    command: the user's command line; empty for this process's.
    more: further fields of Session.
    """
    return Session(
        id=uuid4().hex[:8],
        started=datetime.now(UTC),
        command=command or command_line(),
        pid=os.getpid(),
        environment=environment,
        version=_version("trio-profile"),
        inputs=dict(inputs or {}),
        **more,
    )


def without_torch() -> Environment:
    """Describe this machine for work that runs no model, so its `cpu_threads` are 0.

    Libraries that are not installed have an empty version.
    """
    return Environment(**facts(), torch=_version("torch"), device_name="cpu", cpu_threads=0)


def facts() -> dict[str, Any]:
    """Return the fields of an Environment that need no torch."""
    return {
        "hostname": socket.gethostname(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "transformers": _version("transformers"),
        "fvcore": _version("fvcore"),
        "cpu": _cpu_name(),
        "memory_bytes": _memory(),
        "commit": _commit(),
    }


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def command_line() -> str:
    """Return the command line of this process, with the program's name instead of its path, which is private.

    Bytes that are not UTF-8 become backslash escapes.
    """
    path = PurePath(sys.argv[0])
    program = "trio-profile" if path.name == "__main__.py" and "trio_profile" in path.parts else path.name
    words = [program, *sys.argv[1:]]
    return shlex.join(word.encode("utf-8", "backslashreplace").decode() for word in words)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_PLAIN = ("--no-ext-diff", "--full-index", "--diff-algorithm=default", "--src-prefix=a/", "--dst-prefix=b/")
"""The options of `git diff` with which the settings of the user do not change what it prints."""


def _commit() -> str | None:
    """The commit of the checkout that this code runs from; None outside a checkout.

    Where files of the two packages are changed, a + follows, and eight digits of a SHA-256 of the changes. Other files
    of the checkout, such as a README, measure nothing. Files that git does not track are not part of the digest.
    """
    package = Path(__file__).parent.parent
    checkout = package.parent
    if not (checkout / ".git").exists():
        return None
    try:
        commit = _git(checkout, "rev-parse", "--short", "HEAD").decode().strip()
        changes = _git(checkout, "diff", *_PLAIN, "HEAD", "--", package.name, "trio_core")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+{sha256(changes).hexdigest()[:8]}" if changes else commit


def _git(place: Path, *arguments: str) -> bytes:
    """Return the output of a command of git. Raises SubprocessError if it fails or takes longer than five seconds."""
    return subprocess.run(["git", *arguments], cwd=place, capture_output=True, timeout=5, check=True).stdout
