"""How a field of a study says which option of the command line sets it: `batch: int = option(1, INPUT, "…")`."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field
from pydantic.fields import FieldInfo

SERVER, MODEL, METHOD, INPUT, CLAIM, SAMPLING = "Server", "Model", "Method", "Input", "Claim", "Sampling"
HOSTS = "Hosts"
PANELS = (SERVER, MODEL, METHOD, INPUT, CLAIM, SAMPLING, HOSTS)
"""Panels of a verb's help, in their order."""

Form = Literal["value", "list", "repeat", "path", "paths", "assignments", "groups", "argument"]


@dataclass(frozen=True)
class Option:
    """One option of the command line.

    panel: the heading under which a verb's help lists it.
    help: one sentence or two.
    flags: as they are typed, the main one first. Empty: made from the field's name.
    form: how the text becomes the value. `value`: as its type says. `list`: a comma list. `repeat`: the option may be
        repeated. `path`, `paths`: made absolute. `assignments`: NAME=VALUE, repeated. `groups`: keys of a table,
        repeated. `argument`: a name or a path that needs no flag.
    default: what the help says of a default that is no value of its own.
    several: what the help adds where a kind takes several values.
    metavar: what the help shows for the value.
    basic: whether `--help` lists it. `--help-all` lists every option.
    """

    panel: str
    help: str
    flags: tuple[str, ...] = ()
    form: Form = "value"
    default: str = ""
    several: str = ""
    metavar: str | None = None
    basic: bool = False


def option(default: Any, panel: str, help: str, *, default_help: str = "", **parts: Any) -> Any:
    """A field of a study with this default, and the option that sets it.

    default_help: what the help says of a default that is no value of its own.
    parts: further fields of Option, and the bounds of the value as pydantic's Field takes them.
    """
    bounds = {name: parts.pop(name) for name in ("ge", "gt", "le", "lt") if name in parts}
    field: FieldInfo = Field(default, description=help, **bounds)
    field.metadata.append(Option(panel, help, default=default_help, **parts))
    return field


def option_of(field: FieldInfo) -> Option | None:
    """The option that sets a field of a study; None for a field without one."""
    return next((part for part in field.metadata if isinstance(part, Option)), None)


def options_of(study: Any) -> dict[str, Option]:
    """The options of a class of studies by the names of their fields, in the order of the help."""
    declared = {name: option for name, field in study.model_fields.items() if (option := option_of(field))}
    place = {name: -1 if option.form == "argument" else PANELS.index(option.panel) for name, option in declared.items()}
    return {name: declared[name] for name in sorted(declared, key=place.__getitem__)}
