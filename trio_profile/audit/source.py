"""YAML as a tree of plain texts with the line that each stands in, so that trailing zeros and places are kept.

Only what a table of figures needs: mappings, lists, scalars. Aliases, tags, duplicate keys, deep nesting and files over
a limit are refused before anything is built of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from trio_profile.errors import ClaimsError

MOST_BYTES = 1_000_000
_MOST_DEPTH = 12
_MOST_NODES = 50_000
_LONGEST = 2_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path_ = tuple[str | int, ...]
"""Where something stands in the tree: keys, and places in lists."""


@dataclass(frozen=True)
class Source:
    """A file's tree (dict, list, str; None for nothing), and the line of every part of it."""

    name: str
    tree: Any
    lines: dict[Path_, int]

    def refuse(self, path: Path_, message: str) -> NoReturn:
        """Raise ClaimsError that names file, line and field."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        field = ".".join(str(part) for part in path) or "the file"
        raise ClaimsError(f"{self.name}, line {self.lines.get(known, 1)}: {_one_line(field)}: {_one_line(message)}")


def exists(path: Path) -> bool:
    """Whether there is something by this name; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read(path: Path) -> Source:
    """The tree of a file. Raises ClaimsError for one that cannot be read, is too large, or is not such YAML."""
    try:
        if not path.is_file():
            raise ClaimsError(f"{path} is no file; name a claims file or a built-in set")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ClaimsError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise ClaimsError(
            f"{path}, line 1: the file: more than {MOST_BYTES // 1000} kB; a claims file holds a few tables"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ClaimsError(f"{path}, line {line}: the file: byte {error.start} is not UTF-8") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Source:
    """The tree of a text. Raises ClaimsError naming line and field."""
    lines: dict[Path_, int] = {}
    source = Source(name, None, lines)
    events = _events(text, source)
    if (first := next(events, None)) is None:
        source.refuse((), "is empty; `trio-profile audit --new FILE` writes one to begin with")
    tree = _build(first, events, (), source)
    if isinstance(following := next(events, None), yaml.NodeEvent):
        lines[()] = following.start_mark.line + 1
        source.refuse((), "holds more than one document")
    return Source(name, tree, lines)


def _events(text: str, source: Source) -> Iterator[yaml.Event]:
    """The parser's events, without those that open and close streams and documents."""
    depth = nodes = 0
    try:
        for at in yaml.parse(text, Loader=_LOADER):
            if isinstance(at, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(at, yaml.CollectionEndEvent):
                depth -= 1
            nodes += isinstance(at, yaml.NodeEvent)
            if depth > _MOST_DEPTH or nodes > _MOST_NODES:
                what = f"nests deeper than {_MOST_DEPTH}" if depth > _MOST_DEPTH else f"holds over {_MOST_NODES} parts"
                source.lines[()] = at.start_mark.line + 1
                source.refuse((), what)
            if isinstance(at, yaml.NodeEvent | yaml.CollectionEndEvent):
                yield at
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        source.lines[()] = mark.line + 1 if mark else 1
        source.refuse((), f"is not YAML: {getattr(error, 'problem', None) or error}")


def _build(event: yaml.Event, events: Iterator[yaml.Event], path: Path_, source: Source) -> Any:
    source.lines[path] = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        source.refuse(path, "anchors and aliases are not taken; write the value out")
    if getattr(event, "tag", None):
        source.refuse(path, f"the tag {event.tag} is not taken; write plain values")  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(event, yaml.ScalarEvent):
        if len(event.value) > _LONGEST:
            source.refuse(path, f"a text of {len(event.value)} characters; at most {_LONGEST}")
        text = " ".join(event.value.split())
        if not text.isprintable():
            source.refuse(path, "holds a character that cannot be shown")
        return None if not event.style and text in ("", "~", "null") else text
    if isinstance(event, yaml.SequenceStartEvent):
        parts: list[Any] = []
        while not isinstance(part := next(events), yaml.SequenceEndEvent):
            parts.append(_build(part, events, (*path, len(parts)), source))
        return parts
    tree: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            source.lines[path] = key.start_mark.line + 1
            source.refuse(path, "a key must be a plain word or number")
        name = _build(key, events, (*path, key.value), source) or key.value
        inside, line = (*path, name), key.start_mark.line + 1
        if name in tree:
            source.lines[inside] = line
            source.refuse(inside, "stands twice; name each key once")
        tree[name] = _build(next(events), events, inside, source)
        source.lines[inside] = line
    return tree


def _one_line(text: str) -> str:
    """Without what would break the line, or the terminal, and not longer than can be read."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= 200 else plain[:199] + "…"
