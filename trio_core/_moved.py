"""Old module names that users import. Each name still resolves, and a warning names its new place."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def moved(module: str, *places: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that finds its names in other modules.

    module: the old module. places: the new modules, the first of which that has a name is its new place.
    """

    def find(name: str) -> Any:
        for place in places:
            if not name.startswith("__") and hasattr(new := importlib.import_module(place), name):
                message = f"{module}.{name} has moved: import it from {place}"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                return getattr(new, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
