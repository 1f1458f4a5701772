"""`prune(model, method)`: token pruning inside an unmodified Hugging Face model, while a context is open."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakSet

from torch import nn
from transformers import PreTrainedModel

from trio_core import methods
from trio_core.engine.attach import Attachment
from trio_core.engine.calls import check_parameters
from trio_core.engine.checking import check_unknown
from trio_core.engine.passes import Setup
from trio_core.engine.prompt import PRUNE_WITH, is_prunable
from trio_core.engine.proof import check_release
from trio_core.errors import OptionError, UnsupportedModel
from trio_core.methods.combined import TwoParts
from trio_core.methods.method import Method, PixelMethod
from trio_core.methods.view import Signal
from trio_core.models import adapter_for
from trio_core.models.adapter import Adapter
from trio_core.models.encoder import Tower
from trio_core.models.layer import check_whole
from trio_core.rules.schedule import check_layers
from trio_core.trace import Trace

_pruned_now: WeakSet[PreTrainedModel] = WeakSet()
_opening = Lock()


@contextmanager
def prune(model: nn.Module, method: Method | str, **options: Any) -> Iterator[Trace]:
    """Prune visual tokens by `method` in every prefill of `model` while the context is open.

    model: a transformers model, or one inside PEFT's or torch.compile's wrapper.
    method: a `Method`, or a name (`"trio"`, `"visionzip+trio"`, `"package.module:ClassName"`) with its options as
        keywords.

    Yields the Trace, which each prefill refills. On the way out the model is as it came in, also after an error. The
    context belongs to the thread of its first forward. A cache that was filled inside raises when it is used outside.

    Raises OptionError for bad options, and UnsupportedModel for a model that cannot be pruned. The model's forward
    raises RetentionError for a retention that the picture's tokens cannot reach, TrioError for a selection that misses
    its budget or does not ascend, and UnsupportedInput or UnsupportedModel where pruning could give a wrong result.
    """
    selected = _as_method(method, options)
    unwrapped, *wrappers = unwrap(model)
    if unwrapped in _pruned_now:
        raise _already(unwrapped)
    setup, notes = _setup(adapter_for(unwrapped), selected)
    check_unknown(setup.adapter, selected, prune)
    check_release(setup.adapter, prune)
    trace = Trace()
    attachment = Attachment(setup, trace, notes)
    with _opening:
        if unwrapped in _pruned_now:
            raise _already(unwrapped)
        _pruned_now.add(unwrapped)
    try:
        attachment.open(*wrappers)
        yield trace
        attachment.finish()
    finally:
        attachment.close()
        _pruned_now.discard(unwrapped)


def check_prunable(model: nn.Module, method: Method) -> None:
    """Raise what `prune(model, method)` would raise, and prune nothing.

    It also serves a model on the meta device, whose forward nobody will run.
    """
    _setup(adapter_for(unwrap(model)[0]), method)


def unwrap(model: nn.Module) -> tuple[PreTrainedModel, list[nn.Module], list[nn.Module]]:
    """The transformers model inside PEFT's and torch.compile's wrappers, and the wrappers: PEFT's and torch.compile's.

    Raises UnsupportedModel for anything else, for a model that is split over processes, and for one that
    `model.compile()` made skip its hooks.
    """
    entries: list[nn.Module] = []
    compiled: list[nn.Module] = []
    inside: Any = model
    while not isinstance(inside, PreTrainedModel):
        if "_orig_mod" in getattr(inside, "_modules", {}):
            compiled.append(inside)
            inside = inside._modules["_orig_mod"]
        elif hasattr(inside, "get_base_model") and hasattr(inside, "base_model"):
            entries.append(inside.base_model)
            inside = inside.get_base_model()
        else:
            raise UnsupportedModel(
                f"{type(model).__name__} is no transformers model: pass the model itself, or PEFT's or torch.compile's "
                "wrapper of it"
            )
    check_whole(inside)
    if getattr(inside, "_compiled_call_impl", None) is not None:
        raise UnsupportedModel(
            f"{type(inside).__name__} was compiled as a whole (model.compile()), and such code skips hooks, so that "
            "nothing would be pruned: compile layer by layer (layer.compile()), or not at all"
        )
    return inside, [entry for entry in entries if entry is not inside], compiled


def _already(model: PreTrainedModel) -> OptionError:
    return OptionError(f"{type(model).__name__} is being pruned already: leave that context first")


def _as_method(method: Method | str, options: dict[str, Any]) -> Method:
    if isinstance(method, Method):
        if options:
            raise OptionError(
                f"options {sorted(options)} go with a method's name: give them to {type(method).__name__}(…) instead"
            )
        return method
    cls = methods.find(method)
    named = {option: cls.field_of(option) for option in options}
    if unknown := sorted(option for option, name in named.items() if name is None):
        raise OptionError(f"method {method!r} has no option {unknown[0]!r}; it has: {', '.join(cls.option_names())}")
    return cls(**{name: options[option] for option, name in named.items() if name is not None})


def _setup(adapter: Adapter, method: Method) -> tuple[Setup, tuple[str, ...]]:
    """The facts of the context, and notes on what differs from what the method asks for."""
    check_parameters(adapter.model)
    num_layers, notes = len(adapter.layers), ()
    positions = method.positions_in(adapter.multi_axis_positions)
    if method.layers is not None:
        check_layers(method.layers, num_layers)
    if not is_prunable(adapter.attention):
        raise UnsupportedModel(f"attention {adapter.attention!r}: {PRUNE_WITH}")
    if positions is None or positions != method.positions:
        why = f"positions {method.positions!r} are not defined for {adapter.family}, whose positions have several axes"
        if positions is None:
            raise UnsupportedModel(f"{why}; use 'original'")
        notes = (f"{why}: the {positions} positions are kept",)
    return Setup(adapter, method, positions, _tower(adapter, method), num_layers, adapter.window), notes


def _tower(adapter: Adapter, method: Method) -> Tower:
    """The vision tower with the hooks that the method needs."""
    chooser = method.encoder_part if isinstance(method, TwoParts) else method
    if isinstance(chooser, PixelMethod):
        if Signal.ENCODER in method.needs:
            raise OptionError(
                f"method {method.name!r} chooses before the vision tower and looks into it: use one of both"
            )
        return adapter.thin_tower(chooser.keep_pixels)
    if Signal.ENCODER not in method.needs:
        return Tower()
    try:
        return adapter.tower()
    except UnsupportedModel:
        if not chooser.grids_suffice:
            raise
        return adapter.grid_tower()
