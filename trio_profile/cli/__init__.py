"""The command line: one verb a file, each declaring its own arguments and then calling the library.

Exit codes: 0 done, 1 a gate or audit said no, 2 usage or bad input (one line, never a traceback), 130 interrupted.
Verbs import what needs torch inside their functions, so that `--help` answers at once.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from trio_profile.cli import (
    ablate,
    audit,
    check,
    compare,
    env,
    flops,
    gate,
    layers,
    methods,
    models,
    report,
    sweep,
    theory,
)
from trio_profile.cli import eval as evaluate

app = typer.Typer(
    name="trio-profile",
    help="Does this visual-token pruning method really make my vision-language model cheaper? Measure it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _verb in (
    *(sweep, compare, ablate, flops, layers, theory, evaluate, audit),
    *(report, check, gate, methods, models, env),
):
    app.command(_verb.__name__.rpartition(".")[2])(_verb.command)

_INTERRUPTED = 130
"""What typer makes of Ctrl-C."""
_RESUMED = ("sweep", "compare", "ablate")
"""Verbs whose finished cells are not run again."""

# typer carries click within itself from some version on; the base of its usage errors is found wherever it lives.
_UsageError: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    from trio_core.errors import TrioError
    from trio_profile.errors import ProfileError

    # A method of the user's own is looked for where they stand; last, so that nothing there hides a library.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        code = app(args=arguments, standalone_mode=False)
    except (TrioError, ProfileError) as error:
        return _complain(str(error))
    except _UsageError as error:
        return _complain(error.format_message())
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if code == _INTERRUPTED:
        verb = next(iter(sys.argv[1:] if arguments is None else arguments), "")
        kept = "; what was measured is kept, and the same command goes on" if verb in _RESUMED else ""
        print(f"trio-profile: interrupted{kept}", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    print(f"trio-profile: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
