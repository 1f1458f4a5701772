"""`trio-profile` without the wait for its imports. A process imports torch once and forks a copy for each command.

The imports take four CPU seconds, and the tests run some thirty commands that need them. A test of how the program
starts calls `python -m trio_profile` instead.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

from tests.places import PYTHONPATH

ENVIRONMENT = {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
"""The variables that the imports read. Every command has these values."""
UNTRACED = ("compare", "sweep")
"""Verbs that run without fvcore's count here, because its trace takes a third of their time."""
IMPORTED = (
    "scipy.stats",
    "trio_profile.engine.measuring",
    "trio_profile.kinds.grid.sweep",
    "trio_profile.report.html",
)
"""The modules to import first. With what they import themselves, they are all that a study needs."""
_SERVE = "import sys; from tests.warm import serve; serve(sys.argv[1])"
_CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode()
    socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(request)
    code = server.recv(1)
sys.exit(code[0] if code else "the process of this command ended without an exit code")
"""


@functools.cache
def program() -> list[str]:
    """Start the process, once in each process of the tests. Returns the program that stands for `trio-profile`."""
    place = tempfile.TemporaryDirectory()
    address, client = str(Path(place.name) / "socket"), Path(place.name) / "client.py"
    client.write_text(_CLIENT.format(address=address))
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, address],
        cwd=place.name,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))} | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def stop() -> None:
        process.communicate()
        place.cleanup()

    atexit.register(stop)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n", "it did not start"
    return [sys.executable, "-I", "-S", str(client)]


def call(*arguments: object, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `trio-profile` with these arguments, in this directory or in the present one.

    arguments: those of `trio-profile`. Or `-c`, Python code to run instead, and the arguments of the code.
    """
    command = [*program(), *map(str, arguments)]
    return subprocess.run(
        command, cwd=directory, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=300
    )


def serve(address: str) -> None:
    """Import what a study needs. Then run each command that comes, until standard input is closed.

    address: path of the socket.
    """
    from trio_profile.process import prepare

    prepare()  # before torch is imported, as the command line does
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [], 1)
            if listener in ready:
                client, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    _answer(client)
                client.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if sys.stdin in ready:
                return


def _answer(client: socket.socket) -> None:
    """Run the command of a client in this process, tell the client the exit code, and end.

    If the client is killed, this process ends at once.
    """
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    text = b""
    while len(text) < int.from_bytes(head, "big"):
        if not (part := client.recv(1 << 16)):
            os._exit(1)  # the client was killed
        text += part
    directory, environment, arguments = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    threading.Thread(target=lambda: (client.recv(1), os._exit(1)), daemon=True).start()
    os.chdir(directory)
    os.environ.update(environment)
    code = 1
    try:
        code = _run(arguments)
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
    finally:
        client.sendall(bytes([code]))
        os._exit(code)


def _run(arguments: list[str]) -> int:
    """Run the command line, or the code behind `-c`. Returns the exit code."""
    if arguments[:1] == ["-c"]:
        sys.argv = ["-c", *arguments[2:]]
        try:
            exec(arguments[1], {"__name__": "__main__"})
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
                return 1
            return end.code or 0
        return 0
    from trio_profile.cli import exits, run
    from trio_profile.profilers import flops_counted

    if arguments[:1] and arguments[0] in UNTRACED:
        flops_counted.fvcore = lambda *_: (None, "not asked")
    sys.argv = ["trio-profile", *arguments]
    return exits.in_this_process(run)
