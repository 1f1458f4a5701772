"""The options that several verbs share, whether or not they run a study."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.studies.logs import LOGGERS

OUTPUT = "Output"
"""The last panel of a verb's help."""

STUDY_FILE = Annotated[
    Path | None,
    typer.Option(
        "--study",
        help="Read the study from this TOML file. Options on the command line override the file.",
        rich_help_panel=OUTPUT,
    ),
]
RESUME = Annotated[
    bool,
    typer.Option(
        "--resume/--no-resume",
        help="Continue the study in --out. --no-resume refuses a directory that holds a study. Default: --resume.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
DRY_RUN = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the cells, their budgets and cost, and the expected time. Measure nothing.",
        rich_help_panel=OUTPUT,
    ),
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
JSON = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output, nothing else.", rich_help_panel=OUTPUT),
]
MARKDOWN = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown, for an issue or a pull request.", rich_help_panel=OUTPUT)
]
LATEX = Annotated[bool, typer.Option("--latex", help="Print LaTeX, for a paper.", rich_help_panel=OUTPUT)]
LOG = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="LOGGER",
        help=f"Also log the study, its numbers and its page to this logger: {', '.join(LOGGERS) or 'none is here'}. "
        "It needs the extra of the same name.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
DIRECTORY = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A directory that holds a study (--out).")]
