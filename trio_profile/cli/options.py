"""The options of the study verbs, made from the fields of the study that a kind takes.

A field declares its option (`records/option.py`). `declared` tells it to typer, and `fields` turns what was given on
the line into fields of a study.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from trio_profile import units
from trio_profile.reading import is_regular, parse_json
from trio_profile.records.option import Form, Option, option_of
from trio_profile.study.kind import Kind

LONGEST_SECONDS = 3600.0
"""How long `--until` measures at the most, if no other time is given."""
NARROWEST = 0.026
"""The half width that the machine's state alone gives an interval on a CPU: stats/intervals.py, MACHINE_SPREAD."""


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`["threshold=0.9", "nms=false"]` → {"threshold": 0.9, "nms": False}. Raises BadParameter for text without `=`."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"option {text!r} is not of the form name=value")
        try:
            values[name] = parse_json(value)
        except ValueError:
            values[name] = value
        if not isinstance(values[name], bool | int | float | str):
            raise typer.BadParameter(f"option {text!r}: the value must be a number, true, false or a word")
    return values


def absolute(path: Path | str) -> str:
    """A path that still holds when the study is read in another directory."""
    return os.path.realpath(path)


def one_or_more(paths: Sequence[Path]) -> str | tuple[str, ...]:
    """The path of one file, or the paths of several."""
    first, *others = map(absolute, paths)
    return (first, *others) if others else first


def name_or_path(text: str) -> str:
    """A file's absolute path where there is such a file; otherwise the text, which is a name."""
    return absolute(text) if is_regular(Path(text)) else text


FORMS: dict[Form, tuple[Any, Callable[[Any], Any]]] = {
    "repeat": (list[str], tuple),
    "path": (Path, absolute),
    "paths": (list[Path], one_or_more),
    "assignments": (list[str], assignments),
    "groups": (list[str], lambda groups: {group: {} for group in groups}),
    "argument": (str, name_or_path),
}
"""For each form of an option: the type that typer reads, and the function that makes the field's value of it."""


def declared(study: Any, name: str, *, several: bool = True, default: str = "") -> Any:
    """The declaration of an option for typer.

    study, name: the class of the study, and the field that the option sets.
    several: whether the field may have several values.
    default: as the help says it.
    """
    option = _option(study, name)
    parts = (option.help, option.several if several else "", f"Default: {default}." if default else "")
    text, type_ = " ".join(filter(None, parts)), _type(study, name) | None
    if option.form == "argument":
        return Annotated[type_, typer.Argument(help=text, metavar=name.upper())]
    declaration = typer.Option(
        *flags(study, name), help=text, rich_help_panel=option.panel, metavar=option.metavar, show_default=False
    )
    return Annotated[type_, declaration]


def default_of(kind: Kind, name: str) -> str:
    """The default of a field for a kind of study, as the help says it. Empty if it has none."""
    study, value = kind.load("study"), kind.defaults.get(name)
    if name in kind.empty_words and value == ():
        return kind.empty_words[name]
    if value is None and (text := _option(study, name).default):
        return text
    value = study.model_fields[name].default if value is None else value
    if isinstance(value, bool):
        on, _, off = flags(study, name)[0].partition("/")
        return on if value else off
    parts = value if isinstance(value, tuple) else (value,)
    known = all(isinstance(part, str | int | float) for part in parts)
    return ",".join(part if isinstance(part, str) else units.plain(part) for part in parts) if known else ""


def fields(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a verb as fields of a study. Options without a value are left out.

    study: its class.
    Raises BadParameter for text that cannot be read.
    """
    values = {
        name: _value(study, name, text)
        for name, text in options.items()
        if name in study.model_fields and option_of(study.model_fields[name]) and text is not None and text != []
    }
    if "precision" in values and "seconds" not in values:
        if values["precision"] < NARROWEST and not str(values.get("device", "cpu")).startswith("cuda"):
            raise typer.BadParameter(
                f"--until {values['precision']:g} cannot be reached: an interval on a CPU is never narrower "
                f"than {NARROWEST:g}, because the machine's state differs from hour to hour; ask for more, or for a "
                "time with --seconds"
            )
        values["seconds"] = LONGEST_SECONDS
    return values


def _value(study: Any, name: str, text: Any) -> Any:
    form = _option(study, name).form
    if form in FORMS:
        return FORMS[form][1](text)
    if form == "value":
        return text
    kind = _plain(get_args(_plain(study.model_fields[name].annotation))[0])
    try:
        return tuple(kind(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        flag = flags(study, name)[0]
        raise typer.BadParameter(f"{flag} {text!r} is not a comma list of numbers ({error})") from error


def _option(study: Any, name: str) -> Option:
    option = option_of(study.model_fields[name])
    assert option is not None, f"field {name} of {study.__name__} declares no option"
    return option


def _type(study: Any, name: str) -> Any:
    """The type that typer reads."""
    form = _option(study, name).form
    return FORMS[form][0] if form in FORMS else str if form == "list" else _plain(study.model_fields[name].annotation)


def _plain(annotation: Any) -> Any:
    """A type without None and without its bounds."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def flags(study: Any, name: str) -> Sequence[str]:
    """The names of an option on the line, the main one first."""
    flag = f"--{name.replace('_', '-')}"
    is_switch = study.model_fields[name].annotation is bool
    return _option(study, name).flags or (f"{flag}/--no-{flag[2:]}" if is_switch else flag,)
