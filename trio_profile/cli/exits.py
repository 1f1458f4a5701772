"""How the command line ends: its exit codes, and the one line that it says when something went wrong.

0    done
1    a judge said no: gate, audit --strict, check --strict, models --check
2    bad input, or a fault
130  interrupted
"""

import os
import sys
from typing import Any

import typer

NO = 1
BAD = 2
INTERRUPTED = 130
TRACEBACK = "TRIO_PROFILE_TRACEBACK"
"""Name of the environment variable that lets a fault's traceback through."""

# typer may carry its own copy of click. The base of its usage errors is found wherever it lives.
UsageError: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a study.

    kept: whether finished cells are kept, so that the same command goes on.
    """

    def __init__(self, kept: bool):
        super().__init__()
        self.kept = kept


def code_of(error: BaseException) -> int:
    """Say in one line on standard error why the command line ends, and return its exit code.

    Raises the error itself if it is a fault and TRIO_PROFILE_TRACEBACK is set.
    """
    if isinstance(error, KeyboardInterrupt):
        kept = isinstance(error, Interrupted) and error.kept
        more = "; what was measured is kept, and the same command goes on" if kept else ""
        print(f"trio-profile: interrupted{more}", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output closed it. What is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    print(f"trio-profile: error: {' '.join(_message(error).split())}", file=sys.stderr)
    return BAD


def _message(error: BaseException) -> str:
    from trio_profile.errors import ProfileError

    if isinstance(error, UsageError):
        return _usage(error)
    if isinstance(error, ProfileError) or _is_trio_error(error):
        return str(error)
    if os.environ.get(TRACEBACK):
        raise error
    return f"{type(error).__name__}: {error}; this is a fault of trio-profile: {TRACEBACK}=1 shows where"


def _is_trio_error(error: BaseException) -> bool:
    """Whether trio_core raised it. It cannot have, if it was never imported; on a laptop it may be missing."""
    errors = sys.modules.get("trio_core.errors")
    return errors is not None and isinstance(error, errors.TrioError)


def _usage(error: Any) -> str:
    """What is wrong with the line, and the way out: the nearest option, or the help of the verb."""
    if nearest := getattr(error, "possibilities", None):
        return f"{error.message}; did you mean {nearest[0]}?"
    if type(error) is typer.BadParameter:
        return error.message if error.param is None else error.format_message()
    message: str = error.format_message().rstrip(".")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "trio-profile"
    return message if message.endswith("?") else f"{message}; see `{path} --help`"
