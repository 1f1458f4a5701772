"""Faults that are planted into the code that concludes, and the law that catches each of them.

    python -m tests.profile.planted [WORDS]    all faults, or those with these words in their names

Each fault of planted.yaml replaces a piece of text in a copy of trio_profile. The ordinary run of the law must fail
with each of them, and pass with none. It takes 5 to 20 seconds a fault.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]

KINDS = ("gate", "audit", "theory", "layers", "evaluation", "servers", "grid", "flops")
"""The folders with a law, the quickest first."""


class Fault(NamedTuple):
    """A piece of a module, and what stands there instead."""

    name: str
    module: str
    right: str
    wrong: str


FAULTS = [Fault(**fault) for fault in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())]


def caught_by(package: Path) -> list[str]:
    """The tests of the law that fail with this package."""
    # Without -P the working directory would come before the copy.
    paths = [f"tests/profile/kinds/{kind}/test_law.py" for kind in KINDS]
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-k", "refutes", "-p", "no:cacheprovider", *paths]
    environment = os.environ | {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}", "LAW_DOCUMENTS": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED tests/profile/kinds/(\w+)/test_law.py::(\w+)", done.stdout, re.MULTILINE)
    assert done.returncode == bool(failed), done.stdout + done.stderr
    return [f"{kind}: {test.removeprefix('test_').replace('_', ' ')}" for kind, test in failed]


def main() -> int:
    """Print which test catches each fault. Returns 1 if one is not caught."""
    with TemporaryDirectory() as directory:
        package = Path(directory) / "trio_profile"
        for name in ("trio_core", "trio_profile"):  # trio_profile refuses the core of another folder
            shutil.copytree(ROOT / name, package.parent / name, ignore=shutil.ignore_patterns("__pycache__"))
        assert not caught_by(package), "the law fails without a fault"
        print("fault | caught by", flush=True)
        faults = [fault for fault in FAULTS if " ".join(sys.argv[1:]) in fault.name]
        missed = 0
        for fault in faults:
            path = package / f"{fault.module}.py"
            right = path.read_text()
            assert right.count(fault.right) == 1, f"{fault.name}: {right.count(fault.right)} places"
            path.write_text(right.replace(fault.right, fault.wrong))
            caught = caught_by(package)
            path.write_text(right)
            missed += not caught
            print(f"{fault.name} | {', '.join(caught) or 'NOTHING'}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
