"""The optional parts: the folders of `trio_profile/extras`. Each can be deleted without an edit elsewhere.

A part is found by the names of its modules:

verb      has `command` and `GROUP`, a verb of the part's own name
engine    has `ENGINE`, who measures a study of cells with `--engine NAME`
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

EXTRAS = "trio_profile.extras"


def names(module: str) -> list[str]:
    """Return the names of the parts that have a module of this name. Nothing of a part is imported."""
    package = find_spec(EXTRAS)
    if package is None:
        return []
    parts = [part.name for part in iter_modules(package.submodule_search_locations) if part.ispkg]
    return [part for part in parts if find_spec(f"{EXTRAS}.{part}.{module}") is not None]


def modules(module: str) -> Iterator[tuple[str, ModuleType]]:
    """Import the module of this name of every part that has one. Yield it with the name of the part."""
    for part in names(module):
        yield part, import_module(f"{EXTRAS}.{part}.{module}")
