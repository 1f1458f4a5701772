"""Old module names that users import. Each name still resolves, and a warning names its new place."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def moved(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that finds each name in its new module.

    module: the old module. places: new module by name.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} has moved: import it from {places[name]}", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(places[name])
        return getattr(found, name)

    return find
