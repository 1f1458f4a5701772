"""Compiles the C++ of the rehearsal, and makes the environment of a process whose torch has the pretended device."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import torch

from tests.places import PYTHONPATH

HERE = Path(__file__).parent
SOURCE = HERE / "registration.cpp"


def compiler() -> str | None:
    """The C++ compiler of this machine; None without one."""
    return os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def compiled(folder: Path) -> Path:
    """The compiled C++ in a folder, where it is kept until torch or the source changes."""
    digest = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    made = folder / f"{digest}.so"
    if not made.exists():
        unfinished = made.with_suffix(f".{os.getpid()}")
        include, libraries = (Path(torch.__file__).parent / name for name in ("include", "lib"))
        options = ["-std=c++20", "-shared", "-fPIC", f"-I{include}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        command = [str(compiler()), *options, str(SOURCE), "-ltorch_cpu", "-lc10", "-o", str(unfinished)]
        subprocess.run(command, check=True)
        unfinished.replace(made)  # several processes of the tests may compile at once
    return made


def environment(library: Path) -> dict[str, str]:
    """The variables of a process that has the pretended device. library: the compiled C++."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))} | {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE / "startup"), PYTHONPATH]),
        "REHEARSAL_LIBRARY": str(library),
    }
