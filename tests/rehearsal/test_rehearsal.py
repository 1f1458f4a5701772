"""Compile the C++ of the rehearsal, and run the tests of `inside` in a process whose torch has the pretended device."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.places import PYTHONPATH, ROOT

HERE = Path(__file__).parent
SOURCE = HERE / "registration.cpp"


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Path:
    """The compiled C++. It is kept in pytest's cache until torch or the source changes."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None and not os.environ.get("CI"):
        pytest.skip("no C++ compiler for the rehearsal: install g++")
    assert compiler, "CI rehearses on a pretended GPU: its image needs a C++ compiler"
    digest = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    made = request.config.cache.mkdir("rehearsal") / f"{digest}.so"
    if not made.exists():
        unfinished = made.with_suffix(f".{os.getpid()}")
        include, libraries = (Path(torch.__file__).parent / folder for folder in ("include", "lib"))
        options = ["-std=c++20", "-shared", "-fPIC", f"-I{include}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        subprocess.run([compiler, *options, str(SOURCE), "-ltorch_cpu", "-lc10", "-o", str(unfinished)], check=True)
        unfinished.replace(made)  # several processes of the tests may compile at once
    return made


@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_the_program_is_right_on_a_pretended_gpu(library, speed):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))} | {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE / "startup"), PYTHONPATH]),
        "REHEARSAL_LIBRARY": str(library),
    }
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", speed, str(HERE / "inside"), "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20000:] + ended.stderr[-2000:]
