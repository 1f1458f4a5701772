"""The pruning methods, one paper a file, and the way from a name to a method.

Every file here is imported, which registers the methods in it. A package of yours adds methods by an entry point in the
group `trio_core.methods`. `names()` lists all names. `find("trio")` gives a class, and so does
`find("package.module:ClassName")`. `find("visionzip+trio")` combines a method that acts before the decoder with one
that acts inside it.
"""

import importlib
import pkgutil
from importlib.metadata import entry_points
from inspect import isabstract

from trio_core.errors import OptionError, TrioError, UnknownName, first_line
from trio_core.methods.combined import combine
from trio_core.methods.method import Method, registry

__all__ = ["find", "names", "parts_of", "registry"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def names() -> list[str]:
    """The names of all methods, sorted: the built-in ones, and those of installed packages."""
    return sorted({*registry, *(entry.name for entry in entry_points(group="trio_core.methods"))})


def find(name: str) -> type[Method]:
    """The class of a method.

    name: the name of a method, or `package.module:ClassName`, or two of these with a `+` between them.

    Raises UnknownName for a name that no method has, OptionError for a path that leads to no method and for methods
    that do not combine.
    """
    parts = parts_of(name)
    if len(parts) > 1:
        return combine(*(find(part) for part in parts))
    if ":" in name:
        return _load(name)
    if name in registry:  # before the packages, because reading their entry points takes long
        return registry[name]
    for entry in entry_points(group="trio_core.methods", name=name):
        return _load(entry.value)
    raise UnknownName("method", name, names(), "or name your own as package.module:ClassName")


def parts_of(name: str) -> tuple[str, ...]:
    """The names of the methods that a name combines. A name without `+` is its own only part.

    Raises OptionError unless one part or two are named.
    """
    parts = tuple(name.split("+"))
    if len(parts) > 2 or (len(parts) == 2 and not all(parts)):
        raise OptionError(
            f"method {name!r}: combine two, as in visionzip+trio: one that acts before the decoder, then one inside it"
        )
    return parts


def _load(path: str) -> type[Method]:
    """The method class at `package.module:ClassName`. Raises OptionError where there is none."""
    module, _, attribute = path.partition(":")
    try:
        method = getattr(importlib.import_module(module), attribute)
    except TrioError:  # a fact of the class is wrong
        raise
    except (Exception, SystemExit) as error:  # importing runs the user's own code, which may fail in any way
        why = first_line(error)
        raise OptionError(f"method {path!r} cannot be imported ({why}); name it as package.module:ClassName") from error
    if not (isinstance(method, type) and issubclass(method, Method)) or isabstract(method):
        raise OptionError(f"method {path!r} is not a subclass of trio_core.Method that defines `select`")
    return method
