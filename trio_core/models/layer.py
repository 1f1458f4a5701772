"""A decoder layer taken apart into its modules, so that some of its rows can be computed without the others.

Its projections are called, never read. So LoRA, quantised and offloaded weights need no case of their own. Of a norm
only the scale is asked (`rules/norm.py`).

The parts are the layer only as long as nothing else happens in it. A hook may do anything, and so may a `forward` that
was replaced. `extra_behaviour` finds them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules import module as all_modules

from trio_core.errors import UnsupportedModel
from trio_core.rules.attention import AttentionLayer
from trio_core.rules.checks import check_gradient
from trio_core.rules.norm import RmsNorm

_ONLY_LISTEN = ("fvcore.", "peft.", "torch.jit", "torch.nn.", "torch.utils.", "transformers.", "trio_profile.")
"""Modules whose hooks inside a layer count, collect, or set weights up. They leave its values as they are."""
_HOOKS = {
    "_forward_pre_hooks": "a forward pre-hook",
    "_forward_hooks": "a forward hook",
    "_backward_pre_hooks": "a backward pre-hook",
    "_backward_hooks": "a backward hook",
}
"""Where torch keeps the hooks of a module; with `_global` in front, those of all modules."""
_DIFFERENTIABLE = ("torch.nn.", "transformers.", "peft.")
"""Where the modules of an FFN come from whose gradients need no check one by one."""
_AFFINE: WeakSet[nn.Module] = WeakSet()
"""Value projections of unknown classes that were tried."""
_ROUNDING = 0.1
"""The largest error of an affine module, as a share of its largest output. It may quantise its input to a few bits."""
_LIBRARY = str(Path(transformers.__file__).parent)
_SPLITTING = ("torch.distributed.", "transformers.distributed.")
"""Where the classes of weights and modules come from that hold a part of a model, such as DTensor."""


def take_apart(layer: nn.Module, finish: Callable[[Tensor, Tensor], Tensor], *, known: bool) -> AttentionLayer:
    """The layer's norm, projections and scaling as callables.

    layer: a decoder layer in the layout of Llama, with `input_layernorm` and `self_attn`.
    finish: (residual rows, attention's output) → the layer's output rows. It differs by family (`Adapter.finish`).
    known: whether the layer's class must be transformers' own.

    Raises UnsupportedModel that names the first missing module, or what changes the input of the projections.
    """
    attention = part(layer, "self_attn")
    if change := _replaced(layer, known) or _replaced(attention, known) or _pre_hook(attention):
        raise UnsupportedModel(
            f"{type(attention).__name__} has {change}, so its attention is not that of its projections: remove it, or "
            "choose a method that does not look into a layer, such as divprune"
        )
    width, query = part(attention, "head_dim"), part(attention, "q_proj")
    query_norm, key_norm, value_norm = (getattr(attention, f"{x}_norm", None) for x in "qkv")
    heads, key_heads = _head_counts(attention)
    values_are_keys = getattr(attention, "use_alternative_attention", False)  # Gemma 4's without a window
    return AttentionLayer(
        norm=rms_norm(part(layer, "input_layernorm")),
        query=_heads(query, width, query_norm, heads),
        key=_heads(part(attention, "k_proj"), width, key_norm, key_heads),
        value=_heads(part(attention, "k_proj" if values_are_keys else "v_proj"), width, value_norm, None),
        output=part(attention, "o_proj"),
        finish=finish,
        scaling=part(attention, "scaling"),
        softcap=getattr(attention, "attn_logit_softcapping", None),
        row_by_row=not any(
            _change_on(module) or _change_inside(module) for module in (query, query_norm) if module is not None
        ),
        affine=value_norm is None,
    )


def extra_behaviour(layer: nn.Module, hidden: Tensor, known: bool) -> str | None:
    """The first thing that happens in a layer beside its modules' own forward, in words; None for a plain layer.

    Hooks on the layer itself do not count: they run before and after it. Those that only listen do not count either.
    A value projection that is not affine counts, because sums of its input are no sums of its output then.

    layer, known: as in `take_apart`. hidden: [B, S, D], its input.
    """
    if change := _replaced(layer, known) or _global_hook(_HOOKS):
        return f"{type(layer).__name__} has {change}"
    attention = getattr(layer, "self_attn", None)
    if attention is not None and (change := _replaced(attention, known)):
        return f"{type(attention).__name__} has {change}"
    if change := _change_inside(layer):
        return " has ".join(change)
    value = getattr(attention, "v_proj", None)
    return None if value is None or _is_affine(value, hidden) else "self_attn.v_proj is not affine"


def feed_forward(norm: nn.Module, ffn: nn.Module, rows: Tensor) -> Tensor:
    """[B, P, D], the output of the FFN for the rows before its norm. Raises UnsupportedModel if it has no gradient."""
    foreign = not all(type(module).__module__.startswith(_DIFFERENTIABLE) for module in ffn.modules())
    with gradients_checked(ffn) if foreign else nullcontext():
        made = ffn(norm(rows))
    made = made[0] if isinstance(made, tuple) else made  # some mixtures of experts return their router's logits too
    return check_gradient("the FFN of the probed layer", rows, made)


@contextmanager
def gradients_checked(layer: nn.Module) -> Iterator[None]:
    """A context in which a module inside the layer raises UnsupportedModel if its output has lost the gradient."""

    def check(name: str, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        entered = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
        made = output[0] if isinstance(output, tuple) else output
        if entered is not None and isinstance(made, Tensor) and made.is_floating_point():
            check_gradient(f"{name} of the probed layer", entered, made)

    with ExitStack() as hooks:
        for name, module in layer.named_modules():
            if name and "rotary" not in name:
                hooks.enter_context(module.register_forward_hook(partial(check, name), with_kwargs=True))
        yield


class Replacement:
    """An attribute of a module that is replaced on the instance until `remove`, like the handle of a hook.

    owner: the module. name: of the attribute. stand_in: what stands there now.
    """

    def __init__(self, owner: nn.Module, name: str, stand_in: Any):
        self.owner, self.name, self.stand_in = vars(owner), name, stand_in
        self.before = {name: self.owner[name]} if name in self.owner else {}
        self.owner[name] = stand_in

    def remove(self) -> None:
        """Put back what stood there before, unless somebody put another thing in its place."""
        if self.owner.get(self.name) is self.stand_in:
            del self.owner[self.name]
            self.owner.update(self.before)


def rms_norm(module: nn.Module) -> RmsNorm:
    """A norm module with the eps that it adds. Raises UnsupportedModel where it names no eps or is another norm."""
    if isinstance(module, nn.LayerNorm):
        raise UnsupportedModel(
            f"{type(module).__name__} is no root-mean-square norm: the layer cannot be taken apart; use saliency "
            "'autograd'"
        )
    eps = "variance_epsilon" if hasattr(module, "variance_epsilon") else "eps"
    return RmsNorm(module, part(module, eps))


def check_whole(model: nn.Module) -> None:
    """Raise UnsupportedModel for a model of which this process holds a part only.

    There a module yields a part of its output, or has no weights between two forwards. So a method that calls the
    modules of a layer would score by a part, and each process would keep other tokens.
    """
    for module in model.modules():
        for holder in (module, *module._parameters.values()):
            if f"{type(holder).__module__}.".startswith(_SPLITTING):
                raise UnsupportedModel(
                    f"{type(model).__name__} is split over processes ({type(holder).__name__}: tensor parallel, FSDP "
                    "or pipeline parallel), and a part of a model cannot be pruned: load the whole model in each "
                    "process"
                )


def part(module: nn.Module, name: str) -> Any:
    """An attribute of a module. Raises UnsupportedModel where it is missing."""
    value = getattr(module, name, None)
    if value is None:
        raise UnsupportedModel(
            f"{type(module).__name__} has no {name!r}: the layer cannot be taken apart; use saliency 'autograd'"
        )
    return value


def _head_counts(attention: nn.Module) -> tuple[Any, Any]:
    """How many query heads and key heads the configuration names for a layer; None where it names none."""
    config, index = getattr(attention, "config", None), getattr(attention, "layer_idx", None)
    layers = getattr(config, "per_layer_config", None)
    own = config if layers is None or index is None else layers[index]
    return getattr(own, "num_attention_heads", None), getattr(own, "num_key_value_heads", None)


def _heads(project: nn.Module, width: int, norm: nn.Module | None, count: int | None) -> Callable[[Tensor], Tensor]:
    """A projection that returns heads: [B, S, D] → [B, S, heads, width]. count: how many the configuration names."""

    def heads(rows: Tensor) -> Tensor:
        made = project(rows).unflatten(-1, (-1, width))
        if isinstance(count, int) and made.shape[2] != count:
            raise UnsupportedModel(
                f"a projection yields {made.shape[2]} heads and the configuration names {count}: a layer that is split "
                "over processes cannot be taken apart; load it whole"
            )
        return made if norm is None else norm(made)

    return heads


def _is_affine(module: nn.Module, hidden: Tensor) -> bool:
    """Whether a module maps sums to sums, up to a constant. An unknown class is tried once, and the host waits for it.

    hidden: [B, S, D], rows to try it on.
    """
    if type(module) is nn.Linear or type(module).__module__.startswith("peft.") or module in _AFFINE or hidden.is_meta:
        return True
    with torch.no_grad():
        # Rows of one size: beside a huge one, an error in the other would not be seen.
        first, second = (
            row / row.float().square().mean().sqrt().to(row.dtype) for row in (hidden[:1, -2:-1], hidden[:1, -1:])
        )
        of_first, of_second, of_both, of_none = module(
            torch.cat([first, second, first + second, torch.zeros_like(first)], dim=1)
        )[0].float()
        error = (of_first + of_second - of_both - of_none).abs().max()
        affine = bool(error <= _ROUNDING * torch.minimum(of_first.abs().max(), of_second.abs().max()))
    if affine:
        _AFFINE.add(module)
    return affine


# --- hooks and replaced forwards -------------------------------------------------------------------------------------


def _change_inside(module: nn.Module) -> tuple[str, str] | None:
    """The path of the first module inside a module that has a hook or a replaced forward, and which of the two."""
    for name, child in vars(module)["_modules"].items():
        if child is None:
            continue
        if change := _change_on(child):
            return name, change
        if inside := _change_inside(child):
            return f"{name}.{inside[0]}", inside[1]
    return None


def _change_on(module: nn.Module) -> str | None:
    """The first hook of a module that may change values, or its replaced forward, in words. None for a plain one."""
    own = vars(module)
    for kind, words in _HOOKS.items():
        if not all(map(_only_listens, own[kind].values())):
            return words
    return "a replaced forward" if "forward" in own and not _calls_its_own(module) else None


def _global_hook(kinds: Iterable[str]) -> str | None:
    """The first hook on all modules that may change values. kinds: keys of _HOOKS."""
    for kind in kinds:
        if (hooks := getattr(all_modules, f"_global{kind}")) and not all(map(_only_listens, hooks.values())):
            return f"{_HOOKS[kind]} on all modules"
    return None


def _pre_hook(module: nn.Module) -> str | None:
    """A pre-hook that may change what a module is given, in words."""
    kind = "_forward_pre_hooks"
    return _global_hook([kind]) if all(map(_only_listens, vars(module)[kind].values())) else _HOOKS[kind]


def _only_listens(hook: Any) -> bool:
    """Whether a hook comes from a package whose hooks leave values as they are."""
    while isinstance(hook, partial):
        hook = hook.func
    return str(getattr(hook, "__module__", "")).startswith(_ONLY_LISTEN)


def _replaced(module: nn.Module, known: bool) -> str | None:
    """Whether a forward is not that of the module's class, or the class is not transformers' own: what, in words."""
    module = module._modules.get("_orig_mod") or module  # inside torch.compile's wrapper
    if "forward" in vars(module) and not _calls_its_own(module):
        return "a replaced forward"
    code = getattr(type(module).forward, "__code__", None)
    if known and (code is None or not code.co_filename.startswith(_LIBRARY)):
        return "a forward that is not from transformers"
    return None


def _calls_its_own(module: Any) -> bool:
    """Whether the replaced forward of a module calls that of its class: accelerate's, and what torch.compile made."""
    if "_orig_mod" in module._modules:
        return True
    original = getattr(module.forward, "_torchdynamo_orig_callable", None)
    if (hook := getattr(module, "_hf_hook", None)) is not None:
        hooks = getattr(hook, "hooks", (hook,))
        if all(type(part).__module__ == "accelerate.hooks" for part in hooks):
            original = getattr(module, "_old_forward", None)
    return getattr(original, "__func__", None) is type(module).forward
