"""The options that several verbs share, whether or not they run a study."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trio_profile.studies.logs import LOGGERS

OUTPUT = "Output"
"""The last panel of a verb's help."""


def flag(name: str, help: str, *, panel: str = OUTPUT, **more: Any) -> Any:
    """Return an option. Its help says its default, if it has one. panel: the heading under which a verb lists it."""
    return typer.Option(name, help=help, rich_help_panel=panel, show_default=False, **more)


STUDY_FILE = Annotated[
    Path | None, flag("--study", "Read the study from this TOML file. Options on the command line override the file.")
]
RESUME = Annotated[
    bool,
    flag(
        "--resume/--no-resume",
        "Continue the study in --out. --no-resume refuses a directory that holds a study. Default: --resume.",
    ),
]
DRY_RUN = Annotated[
    bool, flag("--dry-run", "Print the cells, their budgets and cost, and the expected time. Measure nothing.")
]
HELP_ALL = "trio_profile.help_all"
"""Set in a context whose help lists every option."""


def _help_all(context: typer.Context, value: bool) -> None:
    if value:
        context.meta[HELP_ALL] = True
        print(context.get_help())
        raise typer.Exit


ALL_OPTIONS = Annotated[
    bool, typer.Option("--help-all", help="List every option.", callback=_help_all, is_eager=True, expose_value=False)
]
JSON = Annotated[bool, flag("--json", "Print one JSON document on standard output, nothing else.")]
MARKDOWN = Annotated[bool, flag("--markdown", "Print Markdown, for an issue or a pull request.")]
LATEX = Annotated[bool, flag("--latex", "Print LaTeX, for a paper.")]
LOG = Annotated[
    str | None,
    flag(
        "--log",
        f"Also log the study, its numbers and its page to this logger: {', '.join(LOGGERS) or 'none is here'}. "
        "It needs the extra of the same name.",
        metavar="LOGGER",
    ),
]
DIRECTORY = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A directory that holds a study (--out).")]
