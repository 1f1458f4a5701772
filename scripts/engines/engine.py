"""What the scripts of the engines share: an environment of the engine's own, servers, and the study of them."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.error import URLError
from urllib.request import urlopen

from trio_profile.inputs.pocket.scenes import render, scene

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
LOADS = ("--concurrency", "1,2,4,8", "--requests", "32", "--seconds", "5", "--new-tokens", "8")
ROUNDS = ("--rounds", "6", "--session-rounds", "1")
"""The servers are started anew for each round, because one start differs from the next."""
PICTURES = 64
GRACE_SECONDS = 20
"""For a server to end, before it is killed."""


def run(measure: Callable[[], None]) -> None:
    """Call `measure` in the root of the repository. A step that fails ends the program in one line.

    A signal to end also ends the servers.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(ROOT)
    try:
        measure()
    except subprocess.CalledProcessError as error:
        fail(f"{Path(error.cmd[0]).name} failed with exit code {error.returncode}; its messages are above")


def fail(why: str) -> NoReturn:
    """End the program with one line."""
    print(f"{Path(sys.argv[0]).name}: {why}", file=sys.stderr)
    raise SystemExit(2)


def environment(place: Path, packages: Sequence[str], unwanted: Sequence[str]) -> Path:
    """The directory of the programs of an environment below `place`. It is made once.

    unwanted: packages that come with the others and do not import beside the CPU build of torch.
    """
    programs, done = place / "env" / "bin", place / "env" / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", place / "env"], check=True)
        pip = [programs / "pip", "--quiet"]
        subprocess.run([*pip, "install", TORCH], check=True)
        subprocess.run([*pip, "install", TORCH, *packages], check=True)
        if unwanted:
            subprocess.run([*pip, "uninstall", "--yes", *unwanted], check=True)
        done.touch()
    return programs


def checkpoint(place: Path, programs: Path) -> Path:
    """The directory of a small Qwen2.5-VL with random weights."""
    directory = place / "checkpoint"
    if not (directory / "preprocessor_config.json").exists():  # the file that is written last
        subprocess.run([programs / "python", HERE / "random_qwen.py", directory], check=True)
    return directory


def pictures(place: Path, side: int) -> Path:
    """The directory of the drawn pictures.

    side: in pixels. Cut-outs are a few pixels smaller.
    """
    directory = place / f"pictures-{side}"
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(PICTURES):
        path = directory / f"{number:02}.png"
        if not path.exists():
            render(scene(number)).resize((side, side)).save(path)
    return directory


def answers(address: str) -> bool:
    """Whether a server answers at the address."""
    try:
        urlopen(f"{address}/v1/models", timeout=5).close()
    except (URLError, TimeoutError, ConnectionError):
        return False
    return True


@contextmanager
def serving(
    command: Sequence[str | Path], address: str, seconds: float, extra: Mapping[str, str], log: Path
) -> Iterator[None]:
    """A server that answers inside the block, and is ended after it.

    seconds: how long it may take to start.
    extra: variables that are added to its environment.
    log: the file of its messages.
    """
    with starting(command, address, seconds, extra, log) as wait_for_it:
        wait_for_it()
        yield


@contextmanager
def starting(
    command: Sequence[str | Path], address: str, seconds: float, extra: Mapping[str, str], log: Path
) -> Iterator[Callable[[], None]]:
    """A server that is started, and ended after the block. Gives a function that returns when the server answers."""
    if answers(address):
        fail(f"another server answers at {address}; end it first")
    with log.open("wb") as messages:
        server = subprocess.Popen(
            command,
            env={**os.environ, **extra},
            stdout=messages,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    latest = time.monotonic() + seconds

    def wait_for_it() -> None:
        while not answers(address):
            with suppress(subprocess.TimeoutExpired):
                server.wait(1)
            if server.poll() is not None or time.monotonic() > latest:
                fail(f"the server at {address} did not start; its messages are in {log}")

    try:
        yield wait_for_it
    finally:
        stop(server)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End a server with its processes. One that does not listen, as vLLM while it starts, is killed."""
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
            return


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the option `--out`: the directories of the studies."""
    parser.add_argument(
        "--out",
        type=Path,
        nargs="+",
        default=[Path("reports/engines")],
        help="the directory of the studies; several directories take their rounds in turn",
    )


def study(
    outs: Sequence[Path],
    photos: Path,
    serving: Callable[[], AbstractContextManager[object]],
    servers: Sequence[str],
    more: Sequence[str],
) -> None:
    """Measure dense requests against pruned ones with `endpoints`, each round with servers of its own.

    outs: one directory for each study. Several studies take their rounds in turn.
    photos: the directory of the pictures.
    serving: starts the servers, and ends them after its block.
    servers: the options that name the two servers.
    more: further options of `endpoints`.
    Ends the program if `endpoints` fails.
    """
    command = [sys.executable, "-m", "trio_profile", "endpoints", *servers, "--pictures", photos, *LOADS, *ROUNDS]
    left = [*outs]
    while left:
        for out in tuple(left):
            with serving():
                if code := subprocess.run([*command, "--out", out, *more]).returncode:
                    raise SystemExit(code)
            if json.loads((out / "endpoints.json").read_text(encoding="utf-8"))["pairs_left"] == 0:
                left.remove(out)
