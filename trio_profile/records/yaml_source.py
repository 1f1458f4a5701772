"""Read a YAML file as plain texts, and keep the line of every part for error messages.

Numbers stay texts, because their trailing zeros count. A claims file needs only mappings, lists and scalars: anchors,
tags, duplicate keys, deep nesting and large files are refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from os.path import exists as exists  # False also for a name that no file can have
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trio_profile.errors import ClaimsError
from trio_profile.reading import read_text
from trio_profile.text import one_line

MOST_BYTES = 1_000_000
_MOST_DEPTH = 12
_MOST_NODES = 50_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Kind = Literal["claims", "suite"]
_PAGES: dict[Kind, str] = {"claims": "docs/how-to/claims.md", "suite": "docs/how-to/evaluation.md"}
"""The page with the form and an example of each kind of file."""

K = TypeVar("K", bound=BaseModel)
Place = tuple[str | int, ...]
"""The place of a value in the tree: keys of mappings and positions in lists."""


@dataclass(frozen=True)
class Source:
    """A parsed file.

    name: for messages.
    tree: dictionaries, lists and texts. A field with an empty value counts as absent.
    lines: the line of every place.
    kind: what the file holds, for messages.
    """

    name: str
    tree: Any
    lines: dict[Place, int]
    kind: Kind = "claims"

    def refuse(self, place: Place, message: str) -> NoReturn:
        """Raise ClaimsError with the file, the line, the field and the message."""
        field = ".".join(str(part) for part in place) or "the file"
        raise ClaimsError(one_line(f"{self.name}, line {self._line(place)}: {field}: {message}"))

    def record(self, kind: type[K], fields: Any) -> K:
        """Validate the fields of the file. Refuses the first fault at its own line. kind: the pydantic model."""
        try:
            return kind.model_validate(fields)
        except ValidationError as error:
            faults = [(tuple(part for part in fault["loc"] if part != "[key]"), fault) for fault in error.errors()]
            # An unknown field comes before a missing one: it is often the missing field, misspelt.
            where, first = min(faults, key=lambda fault: (self._line(fault[0]), fault[1]["type"] != "extra_forbidden"))
            self.refuse(where, _message(first, kind, self.kind))

    def _line(self, place: Place) -> int:
        """The line of a place, or of the nearest part of the file around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read(path: Path, kind: Kind = "claims") -> Source:
    """Parse a file. Raises ClaimsError if it cannot be read, is too large, or is no such YAML.

    kind: what the file holds, for messages.
    """
    try:
        text = read_text(path, MOST_BYTES)
    except OSError as error:
        raise ClaimsError(f"{path} cannot be read: {error.strerror}; name a {kind} file or a built-in one") from error
    except ValueError as error:
        raise ClaimsError(f"{path} cannot be read: {error}") from error
    return parse(text, str(path), kind)


def parse(text: str, name: str, kind: Kind = "claims") -> Source:
    """Parse a text. Raises ClaimsError with the line if it is no such YAML."""
    source = Source(name, None, {}, kind)
    try:
        _check_events(yaml.parse(text, Loader=_LOADER), source)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        source.lines[()] = mark.line + 1 if mark else 1
        several = problem == "but found another document"
        source.refuse((), "holds more than one document" if several else f"is not YAML: {problem}")
    if root is None:
        source.refuse((), f"is empty; {_PAGES[kind]} has an example")
    return Source(name, _value(root, (), source), source.lines, kind)


def _check_events(events: Iterable[yaml.Event], source: Source) -> None:
    """Refuse anchors, aliases, tags, deep nesting and very many parts, before anything is built from them."""
    depth = nodes = 0
    for event in events:
        source.lines[()] = event.start_mark.line + 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            source.refuse((), "anchors and aliases are not allowed; write the value out")
        if tag := getattr(event, "tag", None):
            source.refuse((), f"the tag {tag} is not allowed; write plain values")
        if depth > _MOST_DEPTH:
            source.refuse((), f"nests deeper than {_MOST_DEPTH}")
        if nodes > _MOST_NODES:
            source.refuse((), f"holds over {_MOST_NODES} parts")
    source.lines.pop((), None)


def _value(node: yaml.Node, place: Place, source: Source) -> Any:
    """A node as a dictionary, a list, a text or None. Records the line of every part."""
    source.lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(part, (*place, i), source) for i, part in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _text(node, place, source)
    tree: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            source.lines[place] = key.start_mark.line + 1
            source.refuse(place, "a key must be a plain word or number")
        name = _text(key, (*place, key.value), source) or key.value
        # The line of a field is that of its name, which may stand above its value.
        source.lines[*place, name] = key.start_mark.line + 1
        if name in tree:
            source.refuse((*place, name), "stands twice; name each key once")
        tree[name] = _value(value, (*place, name), source)
    return {name: value for name, value in tree.items() if value is not None}


def _text(node: yaml.ScalarNode, place: Place, source: Source) -> str | None:
    """A scalar with single spaces; None for an empty value or `null`."""
    text = " ".join(node.value.split())
    if not text.isprintable():
        source.refuse(place, "holds a character that cannot be shown")
    return None if not node.style and text in ("", "~", "null") else text


_MESSAGES = {
    "missing": "is missing; {page} has the form",
    "too_short": "needs at least {min_length}",
    "string_type": "needs a text",
    **dict.fromkeys(("list_type", "tuple_type"), "needs a list, [ … ]"),
    **dict.fromkeys(("dict_type", "model_type"), "needs fields with values, name: value; {page} has the form"),
    "literal_error": "{input!r} is none of {expected}",
}
"""Our words for pydantic's kinds of errors. The others keep pydantic's message."""


def _message(error: ErrorDetails, form: type[BaseModel], kind: Kind) -> str:
    """The fault that one of pydantic's errors reports, and the nearest name for an unknown field of a form."""
    if error["type"] == "extra_forbidden":
        schema = form.model_json_schema()
        parts = [schema, *schema.get("$defs", {}).values()]
        near = get_close_matches(str(error["loc"][-1]), [name for part in parts for name in part["properties"]], n=1)
        return f"no known field; {f'perhaps {near[0]}' if near else f'{_PAGES[kind]} has the form'}"
    if error["type"] in _MESSAGES:
        return _MESSAGES[error["type"]].format(page=_PAGES[kind], input=error["input"], **error.get("ctx", {}))
    text = error["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:] if text != error["msg"] else text.removeprefix("Input should be ")
