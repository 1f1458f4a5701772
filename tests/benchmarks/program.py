"""Call the real program, and keep what it printed, so that a script that was interrupted goes on."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Any

from pydantic import BaseModel

from tests.places import PYTHONPATH

SLOWED_MS = "TRIO_SLOWED_MS"
"""The environment variable that says by how many milliseconds `slowed.py` slows a prefill. Without it, by nothing.

It is no option of the method. So a slowed study and one that is not slowed ask for the same.
"""


class Call(BaseModel):
    """One finished call of the program.

    command: the command line, with the variables that were set for it.
    seconds: how long it took.
    document: what it printed with `--json`.
    """

    command: str
    seconds: float
    document: dict[str, Any]


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script, with the options that all scripts have.

    name: of the script's module.
    """
    made = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{name}", description=description)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--threads", type=int, default=2, help="OMP_NUM_THREADS of each sweep (default: 2)")
    made.add_argument("--seconds", type=float, default=5.0, help="sampling of a cell (default: 5)")
    made.add_argument("--processes", type=int, help="processes of a sweep (default: the program's)")
    out = Path("runs") / name.replace("_", "-")
    made.add_argument("--out", type=Path, default=out, help=f"where studies are kept (default: {out})")
    return made


def call(arguments: Sequence[str], variables: Mapping[str, str], accepted: Sequence[int] = (0,)) -> Call:
    """Run `trio-profile` with these arguments and `--json`. Return what it printed.

    variables: environment variables that are set for it.
    accepted: exit codes that are no error.
    Raises SystemExit if the program ends with another exit code. What it said is on standard error.
    """
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "trio_profile.cli", *arguments, "--json"],
        # The program and the method in `slowed.py` come from this tree.
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **variables},
        stdout=subprocess.PIPE,
        check=False,
    )
    command = _command(arguments, variables)
    if done.returncode not in accepted:
        raise SystemExit(f"exit code {done.returncode} of: {command}")
    return Call(command=command, seconds=time.monotonic() - start, document=json.loads(done.stdout))


def call_once(directory: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> Call:
    """Measure a study in a directory, or return the call that finished it earlier.

    The call is kept in a file beside the directory. A study that was interrupted goes on; its `seconds` are then those
    of the last call.

    arguments: of the program, without `--out`.
    Raises SystemExit if the directory holds a study of another command.
    """
    path = directory.with_suffix(".json")
    arguments = [*arguments, "--out", str(directory)]
    if path.is_file():
        kept = Call.model_validate_json(path.read_text(encoding="utf-8"))
        if kept.command != _command(arguments, variables):
            raise SystemExit(f"{path} was measured by {kept.command}: choose another --out")
        return kept
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = call(arguments, variables)
    write(path, made.model_dump())
    return made


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file in one piece."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def machine() -> dict[str, Any]:
    """Return what a reader must know of this machine beside the environment of a study.

    cpus: the number of CPUs that this process may use.
    load: the mean number of processes that were running or ready during the last minute.
    """
    return {"cpus": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def half_width(quantity: Mapping[str, Any]) -> float:
    """Return the half width of a quantity's interval, divided by its value."""
    low, high = quantity["ci95"]
    return (high - low) / 2 / quantity["median"]


def contains(quantity: Mapping[str, Any], value: float) -> bool:
    """Return whether a quantity's interval contains a value."""
    low, high = quantity["ci95"]
    return low <= value <= high


def _command(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the command line as a user would type it."""
    return " ".join([*(f"{name}={value}" for name, value in variables.items()), "trio-profile", join(arguments)])
