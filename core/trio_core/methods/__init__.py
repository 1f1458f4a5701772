"""The pruning methods, one paper a file.

Every file here is imported, which registers the methods in it. A package of yours adds methods by an entry point in the
group `trio_core.methods`. `names()` lists all names. `find("trio")` gives a class, and so does
`find("package.module:ClassName")`.
"""

import importlib
import pkgutil
from importlib.metadata import entry_points
from inspect import isabstract

from trio_core.errors import OptionError, UnknownName, first_line
from trio_core.methods.method import Method, registry

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def names() -> list[str]:
    """The names of all methods, sorted: the built-in ones, and those of installed packages."""
    return sorted({*registry, *(entry.name for entry in entry_points(group="trio_core.methods"))})


def find(name: str) -> type[Method]:
    """The class of a method.

    name: the name of a method, or `package.module:ClassName`.

    Raises UnknownName for a name that no method has, OptionError for a path that leads to no method.
    """
    if ":" in name:
        return _load(name)
    for entry in entry_points(group="trio_core.methods"):
        if entry.name == name and name not in registry:
            return _load(entry.value)
    if name not in registry:
        raise UnknownName("method", name, names(), "or name your own as package.module:ClassName")
    return registry[name]


def _load(path: str) -> type[Method]:
    """The method class at `package.module:ClassName`. Raises OptionError where there is none."""
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # importing runs the user's own code, which may fail in any way
        why = first_line(error)
        raise OptionError(f"method {path!r} cannot be imported ({why}); name it as package.module:ClassName") from error
    if not (isinstance(found, type) and issubclass(found, Method)) or isabstract(found):
        raise OptionError(f"method {path!r} is not a subclass of trio_core.Method that defines `select`")
    return found
