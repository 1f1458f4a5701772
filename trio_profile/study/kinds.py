"""The search for kinds of study: each folder of `trio_profile/kinds` with a module `kind` has one, or several.

The module has `KIND`, or `KINDS` if several kinds share the folder. To add a kind, add a folder.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import get_args

from trio_profile.errors import StudyError
from trio_profile.study.kind import Group, Kind

ROOM = "trio_profile.kinds"


def _search() -> Iterator[Kind]:
    room = find_spec(ROOM)
    for folder in iter_modules(room and room.submodule_search_locations):
        name = f"{ROOM}.{folder.name}"
        if find_spec(f"{name}.kind") is not None:
            module = import_module(f"{name}.kind")
            yield from getattr(module, "KINDS", ()) or (module.KIND,)


_GROUPS = get_args(Group)
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in sorted(_search(), key=lambda kind: (_GROUPS.index(kind.group), kind.place))
}
"""All kinds by name, in the order of the help."""


def find(name: str) -> Kind:
    """Return the kind with this name. Raises StudyError if no kind has it."""
    if name not in KINDS:
        raise StudyError(f"no kind of study is called {name!r}; choose {', '.join(KINDS)}")
    return KINDS[name]
