"""Runs the blocks of a page, in order, in a directory that belongs to the page."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from tests import warm
from tests.docs.blocks import ROOT, Block, Mistake, Use

SECONDS = 600
"""The longest that a block of bash or a transcript may take, also on a busy machine."""
COPIED = ("reports", "docs/pictures", "trio_profile/data")
"""Folders of the repository of which a page has a copy if it names one."""
SMALLER = {
    "--retention 0.11,0.33,0.66,0.94 --out": "--retention 0.33 --asked 10 --seconds 0.01 --out",
    "--seconds 10 --out": "--seconds 0.01 --out",
    "--seconds 20 --out": "--seconds 0.01 --out",
}
"""Options of a page, and what stands for them when its commands run: less of the same."""
LEFT_OUT = "⋮"
"""A line of a transcript that stands for lines that it leaves out."""
MODULE = "page_of_the_documentation"
"""Name of the module that the Python blocks of a page share."""
END = "\x1e"
"""Printed behind each command of a transcript, before its exit code."""


def run_page(blocks: Sequence[Block], directory: Path) -> None:
    """Run the blocks of a page.

    blocks: all blocks of the page, in order.
    directory: empty; files are written there, and code runs there.

    Raises Mistake for the first block that fails, with its page and line.
    """
    for name in COPIED:
        if any(f"{name}/" in block.text for block in blocks):
            shutil.copytree(ROOT / name, directory / name)
    module = ModuleType(MODULE)
    with _restored(directory, module):
        for block in blocks:
            if block.use is Use.WRITE:
                path = directory / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.use is Use.COMPARE:
                _compare(block, directory)
            elif block.use is Use.RUN:
                _python(block, module) if block.language == "python" else _bash(block, directory)


def _bash(block: Block, directory: Path) -> None:
    """Run a block of bash. Raises Mistake if it fails."""
    text = block.text
    for options, fewer in SMALLER.items():
        text = text.replace(options, fewer)
    code, output = _shell("set -euo pipefail\n" + text, block, directory)
    if code != 0:
        raise Mistake(f"{block.place}: exit code {code}\n{block.text}\n{_end(output)}")


def _shell(script: str, block: Block, directory: Path) -> tuple[int, str]:
    """Run a script by bash; its exit code, and what it printed on both streams. Raises Mistake if it takes too long."""
    programs = directory.parent / f"{directory.name}-programs"
    programs.mkdir(exist_ok=True)
    called = {"python": [sys.executable]} | ({"trio-profile": warm.program()} if "trio-profile" in script else {})
    for name, line in called.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    env |= {"PATH": path, "COLUMNS": "80", "NO_COLOR": "1"} | warm.ENVIRONMENT
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as late:
        raise Mistake(f"{block.place}: not done after {SECONDS} s\n{block.text}") from late
    return done.returncode, done.stdout


def _compare(block: Block, directory: Path) -> None:
    """Run the commands of a transcript. Raises Mistake if one fails, or prints something else."""
    commands = transcript(block)
    keep = f'__code=$?; printf "{END}%s\\n" "$__code"; (exit "$__code")'
    script = "\n".join(["set -uo pipefail", *(f"{command}\n{keep}" for command, _ in commands), "exit 0"])
    _, printed = _shell(script, block, directory)
    outputs = re.split(rf"{END}(\d+)\n", printed)
    for i, (command, expected) in enumerate(commands):
        output, code = (outputs[2 * i], outputs[2 * i + 1]) if 2 * i + 1 < len(outputs) else (outputs[-1], "unknown")
        if code != "0":
            raise Mistake(f"{block.place}: exit code {code} of `{command}`\n{_end(output)}")
        if not shows(expected, output):
            shown = "\n".join(expected)
            raise Mistake(f"{block.place}: `{command}` does not print this:\n{shown}\nbut:\n{_end(output)}")


def transcript(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a transcript, each with the lines that it shows. Raises Mistake if it begins with output."""
    found: list[tuple[str, list[str]]] = []
    continued = False
    for line in block.text.splitlines():
        if continued:
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise Mistake(f"{block.place}: a transcript begins with a command: `$ …`")
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    return found


def shows(expected: Sequence[str], output: str) -> bool:
    """Whether an output has the lines of a transcript.

    expected: the lines shown. Each follows on the one before, and the first is the first of the output, unless a line
        `⋮` stands between. Behind the last one, the output may go on.
    output: what the command printed. Empty lines, and spaces around a line, do not count.
    """
    lines = (line.strip() for line in expected if line.strip())
    pattern = "".join(r"(.*\n)*" if line == LEFT_OUT else re.escape(line) + r"\n" for line in lines)
    printed = (line.strip() for line in output.splitlines() if line.strip())
    return re.match(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _python(block: Block, module: ModuleType) -> None:
    """Run a block of Python. Raises Mistake if it raises."""
    printed = io.StringIO()
    try:
        # The empty lines give the code the line numbers of the page.
        code = compile("\n" * block.line + block.text, block.page, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, vars(module))
    except (Exception, SystemExit) as error:
        told = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == block.page]
        line = told[-1].lineno if told else block.line
        raise Mistake(f"{block.page}:{line}: {type(error).__name__}: {error}\n{_end(printed.getvalue())}") from error


def _end(output: str) -> str:
    """The last lines of what was printed."""
    return "\n".join(output.splitlines()[-30:])


@contextlib.contextmanager
def _restored(directory: Path, module: ModuleType) -> Iterator[None]:
    """Work in a directory whose modules can be imported. Afterwards the process is as before.

    Methods that were registered are forgotten, and so are modules of the directory.
    """
    from trio_core.methods.method import registry

    sys.modules[module.__name__] = module
    try:
        with (
            contextlib.chdir(directory),
            patch.object(sys, "path", [str(directory), *sys.path]),
            patch.dict(os.environ),
            patch.dict(registry),
        ):
            yield
    finally:
        for name, loaded in list(sys.modules.items()):
            file = getattr(loaded, "__file__", None)
            if name == module.__name__ or (file and Path(file).is_relative_to(directory)):
                del sys.modules[name]
