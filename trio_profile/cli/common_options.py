"""The options that several verbs share, whether or not they run a study."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

OUTPUT = "Output"
"""The last panel of a verb's help."""


def flag(name: str, help: str, *, panel: str = OUTPUT, **more: Any) -> Any:
    """Return an option. Its help says its default, if it has one. panel: the heading under which a verb lists it."""
    return typer.Option(name, help=help, rich_help_panel=panel, show_default=False, **more)


STUDY_FILE = Annotated[
    Path | None, flag("--study", "Read the study from this TOML file. Options on the command line override the file.")
]
TRUST = Annotated[
    bool,
    flag(
        "--trust",
        "Let the file of a study or of a suite run code: import its methods module:Class, the functions of its "
        "--task-path, and a kernel of the hub. What you name on the command line yourself needs no --trust.",
    ),
]
RESUME = Annotated[
    bool,
    flag(
        "--resume/--no-resume",
        "Continue the study in --out. --no-resume refuses a directory that holds a study. Default: --resume.",
    ),
]
DRY_RUN = Annotated[
    bool, flag("--dry-run", "Print the plan of the study, its cost and the expected time. Measure nothing.")
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
Form = Literal["terminal", "json", "markdown", "latex"]
"""The form in which a document is printed. A verb takes it in its parameter `form`, see `with_form`."""
FORMS: dict[Form, str] = {
    "json": "Print one JSON document on standard output, nothing else.",
    "markdown": "Print Markdown, for an issue or a pull request.",
    "latex": "Print LaTeX, for a paper.",
}
"""The help of the flags of a form."""
DIRECTORY = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A directory that holds a study (--out).")]


def with_form(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb with a flag for each form in place of its parameter `form`. A verb without it stays as it is."""
    own = signature(command)
    if "form" not in own.parameters:
        return command

    @wraps(command)
    def verb(**values: Any) -> Any:
        forms = [form for form in FORMS if values.pop(form)]
        if len(forms) > 1:
            raise typer.BadParameter(f"--{forms[0]} and --{forms[1]} are forms of the same document: name one")
        return command(**values, form=forms[0] if forms else "terminal")

    flags = [keyword(form, Annotated[bool, flag(f"--{form}", help)], False) for form, help in FORMS.items()]
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.parameters.items() if name != "form"]
    verb.__signature__ = Signature([*parameters, *flags])  # pyright: ignore[reportAttributeAccessIssue]
    return verb


def keyword(name: str, type_: Any, default: Any = None) -> Parameter:
    """A keyword parameter of a verb, as typer reads it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=type_)
