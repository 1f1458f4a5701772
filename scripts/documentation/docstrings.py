"""Our docstrings as Markdown: lines like `name: meaning` become a list.

A docstring has paragraphs, and after them one line for each argument or field:

    layer: the pruning layer, 1-based.
    kept, scores: two names may share a meaning, which goes on
        in indented lines.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import griffe

ITEM = re.compile(r"(?P<names>\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*): (?P<text>.*)")


def markdown(text: str, names: Mapping[str, str]) -> str:
    """A docstring as Markdown.

    text: the docstring, without its indentation.
    names: the arguments or fields that a line may begin with, each with what stands behind it; may be empty.
    """
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(part for block in blocks for part in _parts(block, names))


def meanings(text: str, names: Collection[str]) -> dict[str, str]:
    """The meaning of each name that a docstring has a line for, in one line.

    text: the docstring, without its indentation.
    names: the arguments or fields that a line may begin with.
    """
    return {
        name: meaning
        for block in re.split(r"\n\s*\n", text)
        for line in _joined(block, names)
        for name, meaning in _item(line, names)
    }


def without_items(text: str, names: Collection[str]) -> str:
    """A docstring as Markdown without the lines that `meanings` returns."""
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    left = ([line for line in _joined(block, names) if not _item(line, names)] for block in blocks)
    return "\n\n".join("\n".join(lines) for lines in left if lines)


def _joined(block: str, names: Collection[str]) -> list[str]:
    """The lines of a block, each item in one line. Indented code stays as it is."""
    lines: list[str] = []
    for line in block.splitlines():
        if lines and line.startswith("    ") and _item(lines[-1], names):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return lines


def _item(line: str, names: Collection[str]) -> list[tuple[str, str]]:
    """The names of a line like `name: meaning`, each with the meaning; empty for any other line."""
    if (found := ITEM.fullmatch(line)) is None:
        return []
    named = found["names"].split(", ")
    if not {name.partition("[")[0] for name in named} <= set(names):
        return []
    return [(name, found["text"]) for name in named]


def _parts(block: str, names: Mapping[str, str]) -> Iterator[str]:
    """A block as paragraphs and lists. What follows a list without indentation is a new paragraph."""
    items: list[str] = []
    others: list[str] = []
    for line in _joined(block, names):
        if found := _item(line, names):
            if others:
                yield "\n".join(others)
                others = []
            titles = [f"**`{name}`**{names[name.partition('[')[0]]}" for name, _ in found]
            items.append(f"- {', '.join(titles)}: {found[0][1]}")
        else:
            if items:
                yield "\n".join(items)
                items = []
            others.append(line)
    yield from ("\n".join(part) for part in (items, others) if part)


class Fields(griffe.Extension):
    """Tells griffe, which mkdocstrings reads docstrings with, to read ours as Markdown."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:  # noqa: ARG002
        """Rewrite every docstring of a package that was read."""
        _rewrite(pkg)


def _rewrite(owner: griffe.Object) -> None:
    """Rewrite the docstrings of an object and of its members."""
    if owner.docstring is not None:
        names = {parameter.name.lstrip("*"): "" for parameter in getattr(owner, "parameters", ())}
        if isinstance(owner, griffe.Class):
            names |= {name: _type_and_default(member) for name, member in owner.members.items()}
        owner.docstring.value = markdown(owner.docstring.value, names)
    for member in owner.members.values():
        if isinstance(member, griffe.Object):
            _rewrite(member)


def _type_and_default(field: griffe.Object | griffe.Alias) -> str:
    """The type and the default of a field, to stand behind its name. A function's signature has them already."""
    if not isinstance(field, griffe.Attribute) or field.annotation is None:
        return ""
    type_ = _type(field.annotation)
    if field.value is None or "field(" in str(field.value).lower():
        return f" `{type_}`"
    return f" `{type_} = {field.value}`"


def _type(annotation: griffe.Expr | str) -> str:
    """The text of an annotation, with `T` for each `Annotated[T, …]` in it."""
    if isinstance(annotation, griffe.ExprName):
        return annotation.name
    if isinstance(annotation, griffe.ExprSubscript) and annotation.canonical_name == "Annotated":
        inside = annotation.slice
        return _type(inside.elements[0] if isinstance(inside, griffe.ExprTuple) else inside)
    return annotation if isinstance(annotation, str) else "".join(_type(part) for part in annotation)
