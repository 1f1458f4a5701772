"""The last line of a verb's help: its words that the glossary explains."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from trio_profile.cli.options import OUTPUT


class ExplainedCommand(TyperCommand):
    """A verb whose help ends with its words."""

    def format_help(self, *arguments: Any, **named: Any) -> None:
        """Write the help. The glossary is read only for this."""
        self.epilog = words(self)
        super().format_help(*arguments, **named)


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
        if getattr(parameter, "rich_help_panel", None) != OUTPUT:
            yield getattr(parameter, "help", None) or ""
