"""The model families, one a file. `adapter_for(model)` finds the file that knows a model's class."""

import importlib
import pkgutil

from transformers import PreTrainedModel

from trio_core.models.adapter import Adapter, adapters, families
from trio_core.models.generic import Generic

__all__ = ["adapter_for", "families"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def adapter_for(model: PreTrainedModel) -> Adapter:
    """The adapter of a model's family, or the generic one. Raises UnsupportedModel where that lacks a part."""
    for known in type(model).__mro__:
        if known.__name__ in adapters:
            return adapters[known.__name__](model)
    return Generic(model)
