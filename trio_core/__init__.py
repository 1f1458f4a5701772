"""TRIO and its peers inside unmodified Hugging Face vision-language models.

    from trio_core import prune, Trio
    with prune(model, Trio(retention=0.111)) as trace:
        model.generate(**inputs)

`methods` is the registry: `methods.names()`, `methods.find(name)`. Each built-in method's class can be imported here
too (`from trio_core import FastV`). `Schedule` turns a retention into budgets. Your own method subclasses `Method`,
`ScoreMethod` or `PixelMethod`. Nothing that needs torch is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trio_core.errors import (
    OptionError,
    RetentionError,
    TrioError,
    UnknownName,
    UnsupportedInput,
    UnsupportedModel,
)
from trio_core.rules.cost import LayerShape, PromptSizes, Sizes
from trio_core.rules.schedule import Schedule

if TYPE_CHECKING:
    from trio_core import methods
    from trio_core.methods.method import Method, PixelMethod, Reference, ScoreMethod, Stage
    from trio_core.methods.trio import Trio
    from trio_core.methods.view import Picture, Sample, Selection, Signal, View
    from trio_core.models.encoder import Choice
    from trio_core.pruning import prune
    from trio_core.rules.nms import nms_select
    from trio_core.rules.selection import top_k
    from trio_core.trace import StageTrace, Trace

__all__ = [
    "Choice",
    "LayerShape",
    "Method",
    "OptionError",
    "Picture",
    "PixelMethod",
    "PromptSizes",
    "Reference",
    "RetentionError",
    "Sample",
    "Schedule",
    "ScoreMethod",
    "Selection",
    "Signal",
    "Sizes",
    "Stage",
    "StageTrace",
    "Trace",
    "Trio",
    "TrioError",
    "UnknownName",
    "UnsupportedInput",
    "UnsupportedModel",
    "View",
    "methods",
    "nms_select",
    "prune",
    "top_k",
]

_PLACES = (
    *("trio_core.rules.nms", "trio_core.rules.selection", "trio_core.methods.view", "trio_core.methods.method"),
    *("trio_core.methods.trio", "trio_core.models.encoder", "trio_core.trace", "trio_core.pruning"),
)
"""The modules of the names above. They are imported when a name is first used."""


def __getattr__(name: str) -> Any:
    if name == "methods":
        return import_module("trio_core.methods")
    if name in __all__:
        return next(value for place in _PLACES if (value := getattr(import_module(place), name, None)) is not None)
    if name[:1].isupper():
        for cls in import_module("trio_core.methods.method").registry.values():
            if cls.__name__ == name and cls.__module__.startswith("trio_core.methods."):
                return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
