"""Where the repository and its two packages lie, for tests that start another process; and small repositories."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports"
"""Published studies."""
PYTHONPATH = str(ROOT)
"""Both packages of this tree, whatever is installed."""


def commit_all(directory: Path) -> None:
    """Make a directory a repository with one commit, which has the tag `v1`."""
    for line in ("init --quiet", "add .", "commit --quiet --message first", "tag --annotate v1 --message 1"):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *line.split()]
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
