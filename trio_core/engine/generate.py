"""`model.generate` inside a context. Ways to generate that cannot prune, or would prune wrongly, are refused."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, NoReturn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import Tower
from trio_core.models.layer import Replacement

_ASSISTED = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp")
"""The options of generate() that make a draft."""


class GuardedGenerate:
    """`model.generate`, which refuses assisted decoding and continuous batching at its entry.

    Assisted decoding puts a draft behind the prompt before the prefill, so that pruning would depend on the draft.
    Continuous batching runs the model in a thread of the library, which would swallow our refusal.

    tower: the vision tower with hooks. generate() may run it before the model's forward.
    expect: called with the arguments of each generate(), before it runs.
    generating: whether a generate() is running.
    pruned: whether it has run a prompt with pictures.
    copies: how often it repeats each sample.
    inputs: its keyword arguments while it runs. If it runs the tower itself, the forward does not get all of them.
    """

    def __init__(self, model: Any, tower: Tower, expect: Callable[[dict[str, Any]], None]):
        self.model = model
        self.tower = tower
        self.expect = expect
        self.generating = False
        self.pruned = False
        self.copies = 1
        self.inputs: dict[str, Any] = {}
        self.generate = model.generate

    def install(self) -> list[Replacement]:
        """Stand in for the model's methods. Returns the handles."""
        update_wrapper(self, self.generate)
        refusal = Replacement(self.model, "init_continuous_batching", _refuse_continuous_batching)
        return [Replacement(self.model, "generate", self), refusal]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Generate as the model does. Raises UnsupportedInput for assisted decoding and continuous batching."""
        config = kwargs.get("generation_config") or (args[1] if len(args) > 1 else None)
        sources = (kwargs, *(vars(c) for c in (config, getattr(self.model, "generation_config", None)) if c))
        for source in sources:
            if name := next((name for name in _ASSISTED if source.get(name)), None):
                raise UnsupportedInput(
                    f"{name}: assisted decoding puts a draft behind the prompt before the prefill, and pruning would "
                    "depend on it; generate without it inside prune()"
                )
        self.tower.forget()
        repeats = ("num_beams", "num_return_sequences")
        self.copies = max(next((source[n] for source in sources if source.get(n)), 1) for n in repeats)
        self.generating, self.pruned, self.inputs = True, False, kwargs
        try:
            self.expect({"input_ids": kwargs.get("inputs", args[0] if args else None)} | kwargs)
            return self.generate(*args, **kwargs)
        finally:
            self.generating, self.pruned, self.inputs = False, False, {}
            self.tower.forget()


def _refuse_continuous_batching(*_args: Any, **_kwargs: Any) -> NoReturn:
    """In place of the method that every way to continuous batching calls before its thread starts."""
    raise UnsupportedInput(
        "continuous batching (generate_batch, cache_implementation='paged'): its paged cache cannot hold different "
        "numbers of tokens in different layers, and its prompts have no pictures; call generate() inside prune()"
    )
