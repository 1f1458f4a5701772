"""The verbs. Those of the study kinds are built from their registry; every other verb is a file.

What is slow to import is imported inside functions, so that `--help` answers at once.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperOption

from trio_profile import parts
from trio_profile.cli import study_verbs
from trio_profile.cli.common_options import HELP_ALL, with_form
from trio_profile.study.kind import Group
from trio_profile.study.kinds import KINDS

VERBS: dict[Group, tuple[str, ...]] = {
    "Judge": ("gate", "audit"),
    "Look": ("show", "report", "export", "methods", "models", "env"),
}
"""Verbs that have a file each, by their heading in the help. A verb whose file was deleted is passed over."""
FIRST = ("sweep", "compare", "flops", "show", "methods", "models")
"""The verbs that a newcomer needs, which the help lists first."""


def commands() -> Iterator[tuple[str, Group, Callable[..., None]]]:
    """Every verb with its heading and its function, in the order of the help."""
    for group in get_args(Group):
        files = [name for name in VERBS.get(group, ()) if find_spec(f"trio_profile.cli.{name}")]
        for kind in KINDS.values():
            if kind.group == group and kind.name not in files:
                yield kind.name, group, study_verbs.build(kind)
        for name in files:
            yield name, group, import_module(f"trio_profile.cli.{name}").command
        for name, module in parts.modules("verb"):
            if group == module.GROUP:
                yield name, group, module.command


class Verb(TyperCommand):
    """A verb of which `--help` lists the basic options, and `--help-all` every option.

    The function of a verb says in its attribute `basic` which options are basic. Without it `--help` lists all.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        basic = getattr(self.callback, "basic", None)
        for parameter in self.params:
            if basic is not None and isinstance(parameter, TyperOption):
                parameter.hidden = parameter.name not in basic and not ctx.meta.get(HELP_ALL)
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="trio-profile",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for _name, _group, _command in commands():
    _panel = "Begin" if _name in FIRST else "More"
    app.command(_name, cls=Verb, rich_help_panel=_panel)(with_form(_command))


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


def run(arguments: Sequence[str]) -> int:
    """Run the verb that the arguments name; return its exit code. Raises the errors of the verb.

    arguments: without the program's name.
    """
    _require_utf8(arguments)
    _find_methods_here()
    try:
        with typer.main.get_command(app).make_context("trio-profile", list(arguments)) as context:
            context.command.invoke(context)
            sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    return 0


def _require_utf8(arguments: Sequence[str]) -> None:
    """Raise BadParameter for an argument that is not UTF-8. Documents keep names, and documents are UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise typer.BadParameter(f"argument {argument!r} is not UTF-8; choose another name") from error


def _find_methods_here() -> None:
    """Let `--method module:Class` name a module of the current directory. Raises BadParameter if it was removed.

    The directory comes last in the search, so that nothing in it hides a library.
    """
    try:
        here = str(Path.cwd())
    except OSError as error:  # libraries would fail later, and some of them end the process
        raise typer.BadParameter("the working directory was removed; change to another one") from error
    if here not in sys.path:
        sys.path.append(here)
