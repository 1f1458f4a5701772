"""The model families, one a file. `adapter_for(model)` finds the file that knows a model's class."""

import importlib
import pkgutil

from transformers import PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.models.adapter import Adapter, adapters

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def adapter_for(model: PreTrainedModel) -> Adapter:
    """The adapter of a model's family. Raises UnsupportedModel naming the class and the ones that are known."""
    for known in type(model).__mro__:
        if known.__name__ in adapters:
            return adapters[known.__name__](model)
    raise UnsupportedModel(
        f"model class {type(model).__name__} is not known; known: {', '.join(sorted(adapters))}; "
        "a family is one file in trio_core/models"
    )
