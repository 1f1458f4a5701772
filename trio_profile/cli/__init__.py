"""The command line. `cli/verbs.py` has the verbs, `cli/exits.py` the exit codes.

Nothing heavy is imported here. So an error while the verbs are imported also becomes one line.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from trio_profile.cli import exits


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line in this process, and end the process with its code."""
    sys.exit(exits.in_this_process(lambda: run(arguments)))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code. Every error becomes one line on standard error.

    arguments: without the program's name. None: those of the process.
    """
    try:
        from trio_profile.cli import verbs
        from trio_profile.process import prepare

        prepare()  # before a verb imports torch
        return verbs.run(sys.argv[1:] if arguments is None else list(arguments))
    except BaseException as error:  # SystemExit of foreign code, and a panic of a library written in Rust, too
        return exits.code_of(error)
