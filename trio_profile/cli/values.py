"""How the text of an option becomes a value."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from trio_profile.reading import parse_json
from trio_profile.text import first_line


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


def absolute(path: Path) -> str:
    """A path that still holds when the study is read in another directory. Raises BadParameter if it cannot be made."""
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a removed working directory
        raise typer.BadParameter(f"path {str(path)!r} cannot be resolved: {first_line(error)}") from error


def one_or_more(paths: Sequence[Path]) -> str | tuple[str, ...]:
    """The path of one file, or the paths of several. Raises BadParameter if one cannot be made absolute."""
    first, *others = map(absolute, paths)
    return (first, *others) if others else first


def name_or_path(text: str) -> str:
    """A file's absolute path where there is such a file; otherwise the text, which is a name."""
    path = Path(text)
    try:
        return absolute(path) if path.exists() else text
    except (OSError, ValueError):  # no file can have this name
        return text
