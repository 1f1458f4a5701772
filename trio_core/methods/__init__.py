"""The pruning methods, one paper a file.

Every file here is imported, which registers the methods in it. A package of yours adds methods by an entry point in the
group `trio_core.methods`. `names()` lists all names. `find("trio")` gives a class, and so does
`find("package.module:ClassName")`. `find("visionzip+trio")` combines a method that acts before the decoder with one
that acts inside it.
"""

import importlib
import pkgutil

from trio_core.methods.finding import find, names, parts_of
from trio_core.methods.method import registry

__all__ = ["find", "names", "parts_of", "registry"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
