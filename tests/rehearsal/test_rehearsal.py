"""Run the tests of `inside` in a process whose torch has the pretended device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.rehearsal import building


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Path:
    """The compiled C++, in pytest's cache."""
    if building.compiler() is None and not os.environ.get("CI"):
        pytest.skip("no C++ compiler for the rehearsal: install g++")
    assert building.compiler(), "CI rehearses on a pretended GPU: its image needs a C++ compiler"
    return building.compiled(request.config.cache.mkdir("rehearsal"))


@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_the_program_is_right_on_a_pretended_gpu(library, speed):
    inside = Path(__file__).parent / "inside"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", speed, str(inside), "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=ROOT, env=building.environment(library), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20000:] + ended.stderr[-2000:]
