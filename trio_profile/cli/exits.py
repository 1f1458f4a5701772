"""How the command line ends: its exit codes, and the one line that it says when something went wrong.

0    done
1    a judge said no: gate, audit --strict, show --doubts --strict, models --check
2    bad input, a full disk, or a fault
130  interrupted

No other error leads to 1. Imports only what cannot fail.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trio_profile.cli.streams import Outputs
from trio_profile.errors import ProfileError, is_out_of_memory
from trio_profile.text import message_of, one_line

JUDGED_NO = 1
FAILED = 2
INTERRUPTED = 130
TRACEBACK = "TRIO_PROFILE_TRACEBACK"
"""Name of the environment variable with which the traceback of an error is printed too."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a study.

    kept: whether finished cells are kept, so that the same command goes on.
    """

    def __init__(self, kept: bool):
        super().__init__()
        self.kept = kept


def in_this_process(run: Callable[[], int]) -> int:
    """Run the command line with this process's streams and threads; return the exit code.

    The code is 2 if standard output could not be written, or if a thread ended with an error.

    run: the command line. It returns its exit code.
    """
    faults: list[int] = []
    try:
        outputs = Outputs()
        threading.excepthook = lambda fault: faults.append(code_of(fault.exc_value or RuntimeError()))
        sys.unraisablehook = lambda fault: _say(f"warning: {_fault(fault.exc_value or RuntimeError())}")
        if refused := _refused(outputs):
            return refused
        code = run()
        # If a thread failed, the code of a judge that said no stays 1.
        return _refused(outputs) or (FAILED if faults and code == 0 else code)
    except BaseException as error:  # also Ctrl-C while the output is written
        return code_of(error)


def _refused(outputs: Outputs) -> int:
    """The exit code 2, and a line on standard error, if standard output cannot be written; otherwise 0."""
    if (failure := outputs.failure) is None:
        return 0
    _say(f"error: standard output cannot be written: {failure.strerror or failure}")
    return FAILED


def code_of(error: BaseException) -> int:
    """Say in one line on standard error why the command line ends, and return its exit code.

    The traceback of an error is printed before the line if TRIO_PROFILE_TRACEBACK is set.
    """
    if isinstance(error, KeyboardInterrupt):
        kept = isinstance(error, Interrupted) and error.kept
        more = "; what was measured is kept, and the same command goes on" if kept else ""
        _say(f"interrupted{more}")
        return INTERRUPTED
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    _say(f"error: {_message(error)}")
    return FAILED


def _say(text: str) -> None:
    # With file=None, `print` would write to standard output.
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(f"trio-profile: {one_line(text)}", file=sys.stderr)


def _message(error: BaseException) -> str:
    # typer may carry its own copy of click, so the base of its usage errors is found by its name.
    if any(cls.__name__ == "ClickException" for cls in type(error).__mro__):
        return _usage(error)
    if isinstance(error, ProfileError) or _is_trio_error(error):
        return message_of(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the system'}: {error.strerror}; {TRACEBACK}=1 shows where"
    if is_out_of_memory(error):
        return "out of memory; choose a smaller model, batch or dtype"
    if isinstance(error, SystemExit):
        return f"code that is not trio-profile's ended the program (exit code {error.code})"
    return _fault(error)


def _fault(error: BaseException) -> str:
    return f"{type(error).__name__}: {message_of(error)}; this is a fault of trio-profile: {TRACEBACK}=1 shows where"


def _is_trio_error(error: BaseException) -> bool:
    """Return whether trio_core raised the error. If it was never imported, it raised nothing."""
    errors = sys.modules.get("trio_core.errors")
    return errors is not None and isinstance(error, errors.TrioError)


def _usage(error: Any) -> str:
    """The fault of the line, and the way out: the nearest option, or the help of the verb."""
    if type(error).__name__ == "BadParameter":
        return error.message if error.param is None else error.format_message()
    message: str = error.format_message().rstrip(".")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "trio-profile"
    return message if message.endswith("?") else f"{message}; see `{path} --help`"
