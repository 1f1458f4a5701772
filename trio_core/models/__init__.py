"""The model families. `adapter_for(model)` finds the adapter of a model's class.

A family is one file: a subclass of `Adapter` with its toy configuration and, where they are special, its toy inputs.
Its classes register when the file is imported, and every file in this folder is imported here. These files are no
families: `adapter.py` (the defaults, and any other class), `layer.py` (a decoder layer taken apart), `encoder.py`,
`clip_tower.py`, `qwen_tower.py` and `grid_tower.py` (vision towers), `toy.py` (what the toys share).
"""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel

from trio_core.errors import UnsupportedModel
from trio_core.models.adapter import Adapter, Generic, adapters, cache_layers, families

__all__ = ["adapter_for", "families", "plain_prompt"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def adapter_for(model: PreTrainedModel) -> Adapter:
    """The adapter of a model: its family's, or the generic one for a class of no family.

    Raises UnsupportedModel for a model without decoder layers or with one that is no ordinary attention layer, and for
    a class of no family that lacks another part.
    """
    cache_layers(model)
    names = (cls.__name__ for cls in type(model).__mro__)
    adapter = next((adapters[name] for name in names if name in adapters), Generic)(model)
    if not adapter.layers:
        raise UnsupportedModel(
            f"{type(model).__name__} has no decoder layers (num_hidden_layers: 0 in its text configuration) and "
            "cannot be pruned; load or build it with at least one"
        )
    return adapter


def plain_prompt(processor: Any, pictures: Sequence[str], prompt: str) -> str:
    """The prompt of a checkpoint that has no chat template, in the form of its family.

    processor: its class decides the form.
    pictures: the placeholder of each picture.
    prompt: the question.
    """
    names = {cls.__name__ for cls in type(processor).__mro__}
    family = next((family for family in families.values() if names & {*family.processors}), Adapter)
    return family.plain_prompt(pictures, prompt)
