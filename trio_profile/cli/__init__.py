"""The command line. The verbs of the study kinds are built from their registry; every other verb is a file.

cli/exits.py has the exit codes. What is slow to import is imported inside functions, so that `--help` answers at once.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, get_args

import typer

from trio_profile.cli import audit, check, env, gate, methods, models, report, show, study_verbs
from trio_profile.cli.exits import code_of
from trio_profile.studies.kinds import KINDS, Group

VERBS: dict[Group, tuple[ModuleType, ...]] = {
    "Judge": (check, gate, audit),
    "Look": (show, report, methods, models, env),
}
"""Verbs that have a file each, by their heading in the help."""


def commands() -> Iterator[tuple[str, Group, Callable[..., None]]]:
    """Every verb with its heading and its function, in the order of the help."""
    for group in get_args(Group):
        files = {module.__name__.rpartition(".")[2]: module for module in VERBS.get(group, ())}
        for name, module in files.items():
            yield name, group, module.command
        for kind in KINDS.values():
            if kind.group == group and kind.name not in files:
                yield kind.name, group, study_verbs.build(kind)


app = typer.Typer(
    name="trio-profile",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for _name, _group, _command in commands():
    app.command(_name, rich_help_panel=_group)(_command)


@app.callback(invoke_without_command=True)
def _every_verb(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Does this visual-token pruning method really make my vision-language model cheaper? Measure it."""
    if version:
        from importlib.metadata import version as version_of

        print(f"trio-profile {version_of('trio-profile')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code.

    arguments: without the program's name. None: those of the process.
    """
    _find_methods_here()
    given = sys.argv[1:] if arguments is None else list(arguments)
    verbs = typer.main.get_command(app)
    try:
        with verbs.make_context("trio-profile", given) as context:
            verbs.invoke(context)
            sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return code_of(error)
    return 0


def _find_methods_here() -> None:
    """Let `--method module:Class` name a module of the current directory.

    The directory comes last in the search, so that nothing in it hides a library.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
