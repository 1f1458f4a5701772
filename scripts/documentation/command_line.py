"""docs/reference/command-line.md: every verb with its options, as their declarations say."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from typer.models import ArgumentInfo, ParameterInfo

from documentation.tables import cell, table
from trio_profile.cli import exits, verbs
from trio_profile.cli.common_options import OUTPUT
from trio_profile.glossary import named_in

TOP = """# Command line

This page is made from the program itself by `scripts/reference`. `trio-profile VERB --help` prints the same.

Every verb but `export` and `serve` prints tables on standard output. `--json` prints one JSON document instead.
Progress, warnings and errors go to standard error.
"""
VALUES = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
"""What stands behind an option for the value of each type."""
ARGUMENTS = "Arguments"
"""The panel of what has no name on the line."""
OPTIONS = "Options"
"""The panel of options that name none."""


@dataclass(frozen=True)
class Row:
    """One argument or option of a verb.

    panel: the heading under which the help lists it.
    names: as they are typed, with the value.
    help: what it means, without the default.
    default: empty if there is none.
    required: whether it must be given.
    """

    panel: str
    names: str
    help: str
    default: str
    required: bool


def page() -> str:
    """The text of the page."""
    parts, last = [TOP, _summary()], ""
    for name, group, command in verbs.commands():
        if group != last:
            parts.append(f"## {group}")
            last = group
        parts.append(_verb(name, command))
    parts.append(_exit_codes())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def rows(command: Callable[..., None]) -> Iterator[Row]:
    """The arguments and options of a verb's function, in the order of its help."""
    for parameter in signature(command, eval_str=True).parameters.values():
        type_, info = _declared(parameter)
        text, _, default = (info.help or "").partition(" Default: ")
        if get_origin(type_) is Literal:
            text += f" One of {', '.join(f'`{choice}`' for choice in get_args(type_))}."
        if default:
            default = default.removesuffix(".")
        elif info.show_default and parameter.default not in (Parameter.empty, None, False):
            default = str(parameter.default)
        argument = isinstance(info, ArgumentInfo)
        panel = ARGUMENTS if argument else (info.rich_help_panel or OPTIONS)
        required = parameter.default is Parameter.empty
        yield Row(panel, _names(parameter, type_, info), text, _code(default) if default else "", required)


def _declared(parameter: Parameter) -> tuple[Any, ParameterInfo]:
    """The type of a parameter, without None, and what typer was told about it."""
    type_, info = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else (None, None)
    if not isinstance(info, ParameterInfo):
        raise TypeError(f"parameter {parameter.name!r} of a verb has no typer.Option and no typer.Argument")
    left = [part for part in get_args(type_) if part is not NoneType]
    return (left[0] if NoneType in get_args(type_) else type_), info


def _names(parameter: Parameter, type_: Any, info: ParameterInfo) -> str:
    """How it is typed: `DIRECTORY`, `--out PATH`, `--cold-l2`, `--warm-l2`."""
    if isinstance(info, ArgumentInfo):
        return f"`{info.metavar or parameter.name.upper()}`"
    names = list(info.param_decls or ())
    if isinstance(info.default, str):  # inside Annotated, typer keeps the first name there
        names.insert(0, info.default)
    names = names or [f"--{parameter.name.replace('_', '-')}"]
    value = "" if type_ is bool else f" {info.metavar or _value(type_)}"
    typed = [f"`{name}{value}`" for declared in names for name in declared.split("/")]
    return ", ".join(typed)


def _value(type_: Any) -> str:
    """What stands for a value of a type: a word in capitals."""
    if get_origin(type_) is list:
        return _value(get_args(type_)[0])
    return "CHOICE" if get_origin(type_) is Literal else VALUES[type_]


def _code(default: str) -> str:
    """A default, in code font if it is a value and not a phrase."""
    return f"`{default}`" if " " not in default else default


def _verb(name: str, command: Callable[..., None]) -> str:
    """The section of one verb."""
    found = list(rows(command))
    arguments = [
        row.names.strip("`") if row.required else f"[{row.names.strip('`')}]" for row in found if row.panel == ARGUMENTS
    ]
    usage = " ".join(["trio-profile", name, *arguments, "[OPTIONS]"])
    parts = [f"### {name}", cleandoc(command.__doc__ or ""), f"```text\n{usage}\n```"]
    for panel in dict.fromkeys(row.panel for row in found):
        inside = [row for row in found if row.panel == panel]
        body = [[row.names, cell(row.help), row.default] for row in inside]
        if not any(row.default for row in inside):
            body = [line[:2] for line in body]
        parts.append(table([panel, "meaning", "default"][: len(body[0])], body))
    words = named_in([name, command.__doc__ or "", *(row.help for row in found if row.panel != OUTPUT)])
    if words:
        links = ", ".join(f"[{term.term}](../glossary.md#{term.anchor})" for term in words)
        parts.append(f"Words: {links}.")
    return "\n\n".join(parts)


def _summary() -> str:
    """The table of all verbs."""
    body = [
        [group, f"[`{name}`](#{name})", cell(cleandoc(command.__doc__ or "").partition("\n\n")[0].replace("\n", " "))]
        for name, group, command in verbs.commands()
    ]
    return table(["group", "verb", "what it does"], body)


def _exit_codes() -> str:
    """The exit codes, from the docstring of the module that sets them."""
    found = re.findall(r"^(\d+) +(.+)$", exits.__doc__ or "", flags=re.MULTILINE)
    variable = (
        f"A fault is an error of the program itself. With the environment variable `{exits.TRACEBACK}=1` its traceback "
        "is printed too."
    )
    return "\n\n".join(["## Exit codes", table(["code", "meaning"], [[f"`{c}`", cell(m)] for c, m in found]), variable])
