"""Arguments and studies that tests of several verbs share."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.profile.kept import KEPT
from trio_profile.cli import run


@pytest.fixture(scope="module")
def swept(sweep_arguments, tmp_path_factory) -> tuple[Path, str]:
    """The directory of that sweep, and what the command printed. Tests do not change the study in it."""
    out, printed = tmp_path_factory.mktemp("swept"), StringIO()
    with redirect_stdout(printed):
        assert run([*sweep_arguments, "--out", str(out)]) == 0
    return out, printed.getvalue()


@pytest.fixture(scope="session")
def sweep_arguments(checkpoint, photograph):
    """A sweep of a tiny checkpoint that takes a second or two."""
    return [
        *("sweep", "--model", str(checkpoint), "--image", str(photograph), "--prompt", "What is this?"),
        *("--retention", "0.4,0.8", "--new-tokens", "3", "--seconds", "0.05", "--processes", "1"),
        *("--device", "cpu"),
    ]


@pytest.fixture
def kept(tmp_path):
    """A directory that holds a small sweep."""
    (tmp_path / "study").mkdir()
    KEPT["sweep"](tmp_path / "study")
    return tmp_path / "study"
