"""The help of a verb: its basic options or all of them, and last its words that the glossary explains."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperOption

from trio_profile.cli.common_options import HELP_ALL, OUTPUT


class ExplainedCommand(TyperCommand):
    """A verb whose help ends with its words. `--help` lists the basic options, `--help-all` every option.

    The function of a verb says in its attribute `basic` which options are basic. Without it `--help` lists all.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help. The glossary is read only for this."""
        basic = getattr(self.callback, "basic", None)
        for parameter in self.params:
            if basic is not None and isinstance(parameter, TyperOption):
                parameter.hidden = parameter.name not in basic and not ctx.meta.get(HELP_ALL)
        self.epilog = words(self)
        super().format_help(ctx, formatter)


def words(command: TyperCommand) -> str | None:
    """The line that names the glossary's words in a verb's help. None if there are none.

    The options of the panel Output do not count: every verb has most of them.
    """
    from trio_profile.glossary import named_in

    found = [term.term for term in named_in(_texts(command))]
    if not found:
        return None
    return f"Words: {', '.join(found)}. `trio-profile glossary {found[0]}` explains one."


def _texts(command: TyperCommand) -> Iterator[str]:
    yield command.name or ""
    yield command.help or ""
    for parameter in command.params:
        if getattr(parameter, "rich_help_panel", None) != OUTPUT and not getattr(parameter, "hidden", False):
            yield getattr(parameter, "help", None) or ""
