"""TRIO and its peers inside unmodified Hugging Face vision-language models.

    from trio_core import prune, Trio
    with prune(model, Trio(retention=0.111)) as trace:
        model.generate(**inputs)

`methods` is the registry (`methods.names()`, `methods.find(name)`); `Schedule` turns a retention into budgets. Nothing
that needs torch is imported before it is used.
"""

from typing import TYPE_CHECKING, Any

from trio_core.errors import (
    OptionError,
    RetentionError,
    TrioError,
    UnknownName,
    UnsupportedInput,
    UnsupportedModel,
)
from trio_core.schedule import Schedule

if TYPE_CHECKING:
    from trio_core import methods
    from trio_core.methods.trio import Trio
    from trio_core.pruning import prune

__all__ = [
    "OptionError",
    "RetentionError",
    "Schedule",
    "Trio",
    "TrioError",
    "UnknownName",
    "UnsupportedInput",
    "UnsupportedModel",
    "methods",
    "prune",
]

_LAZY = {"prune": "trio_core.pruning", "Trio": "trio_core.methods.trio", "methods": "trio_core.methods"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LAZY[name])
    return module if name == "methods" else getattr(module, name)
