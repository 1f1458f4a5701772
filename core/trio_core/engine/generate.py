"""`model.generate` inside a context: assisted decoding is refused at its entry."""

from functools import update_wrapper
from typing import Any

from torch import nn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import Tower

_ASSISTED = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp")
"""The options of generate() that make a draft."""


class GuardedGenerate:
    """`model.generate`, which refuses assisted decoding at its entry.

    Assisted decoding puts a draft behind the prompt before the prefill, so that pruning would depend on the draft.

    tower: the vision tower that the method looks into, or None. generate() may run it before the model's forward.
    generating: whether a generate() is running.
    pruned: whether it has run a prompt with pictures.
    """

    def __init__(self, model: nn.Module, tower: Tower | None):
        self.model = model
        self.tower = tower
        self.generating = False
        self.pruned = False
        self.before = vars(model).get("generate")
        self.generate = getattr(model, "generate", None)

    def install(self) -> None:
        """Stand in for the model's method."""
        if self.generate is not None:
            update_wrapper(self, self.generate)
            vars(self.model)["generate"] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Generate as the model does. Raises UnsupportedInput for assisted decoding."""
        config = kwargs.get("generation_config") or (args[1] if len(args) > 1 else None)
        for source in (kwargs, *(vars(c) for c in (config, getattr(self.model, "generation_config", None)) if c)):
            if name := next((name for name in _ASSISTED if source.get(name)), None):
                raise UnsupportedInput(
                    f"{name}: assisted decoding puts a draft behind the prompt before the prefill, and pruning would "
                    "depend on it; generate without it inside prune()"
                )
        assert self.generate is not None
        if self.tower is not None:
            self.tower.forget()
        self.generating = True
        try:
            return self.generate(*args, **kwargs)
        finally:
            self.generating = self.pruned = False

    def remove(self) -> None:
        """Take the guard back."""
        if self.generate is None:
            return
        if self.before is None:
            vars(self.model).pop("generate", None)
        else:
            vars(self.model)["generate"] = self.before
