"""Work that really ran, by torch's counter and by fvcore.

torch counts FLOPs (2 per multiply-add) of every operator that is dispatched, backward passes included; fvcore counts
multiply-adds (it calls them flops) of a traced forward. Both lose attention under SDPA on a CPU; the missing formulas
are supplied here. Attention is counted dense, not halved for causality, as both do.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from fvcore.nn import FlopCountAnalysis
from fvcore.nn.jit_handles import get_shape
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from trio_core.method import Method, Stage
from trio_core.models.adapter import Adapter
from trio_core.pruning import Trace, prune
from trio_core.spans import listening
from trio_core.view import Selection, View
from trio_profile.schema import Counted
from trio_profile.workload import Workload

_aten = torch.ops.aten
_CHOICE = "selection"
_SUSPECTS = ("attention", "mm", "conv", "linear", "einsum", "matmul", "dot")


@dataclass(frozen=True)
class Uncounted:
    """An operator that ran without a formula: how often, and how much it put out."""

    op: str
    calls: int
    output_bytes: int

    @property
    def has_product(self) -> bool:
        """Whether its name speaks of a matrix product or an attention, without which no total is complete."""
        return any(word in self.op for word in _SUSPECTS)


@dataclass(frozen=True)
class Breakdown:
    """Work by where it ran, in MACs.

    macs: all of it. selection_macs: inside the methods' choices. modules: everything that is neither the decoder nor
    the head, by path. uncounted: what ran without a formula, most bytes first.
    """

    macs: int
    selection_macs: int
    modules: dict[str, int]
    uncounted: tuple[Uncounted, ...]


def measure(workload: Workload, method: Method | None) -> tuple[Counted, Trace | None]:
    """Count one prefill, dense (method None) or pruned. Also returns what pruning did."""
    seen, trace = prefill(workload, method)
    suspects = sorted(part.op for part in seen.uncounted if part.has_product)
    counted = Counted(torch_flops=2 * seen.macs, selection_flops=2 * seen.selection_macs, uncounted=tuple(suspects))
    fvcore_macs, reason = _fvcore(workload, trace)
    return counted.model_copy(update={"fvcore_macs": fvcore_macs, "fvcore_reason": reason}), trace


def prefill(workload: Workload, method: Method | None) -> tuple[Breakdown, Trace | None]:
    """One prefill by where its work ran, dense (method None) or pruned, and what pruning did."""
    if method is None:
        return breakdown(workload.adapter, workload.prefill), None
    with prune(workload.model, method) as trace:
        return breakdown(workload.adapter, workload.prefill), trace


def breakdown(adapter: Adapter, run: Callable[[], Any]) -> Breakdown:
    """Count what `run` does with the adapter's model."""
    counter = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    seen: dict[str, int] = {}
    started: dict[str, int] = {}
    choosing = False

    # Not by torch's tracker of modules, which loses its place at a backward pass within the forward.
    def enter(name: str, *_: Any) -> None:
        started[name] = counter.get_total_flops()

    def leave(name: str, *_: Any) -> None:
        if not (choosing and name != _CHOICE):  # a projector that a method calls is part of its choice
            seen[name] = seen.get(name, 0) + counter.get_total_flops() - started[name]

    def tally(name: str, entering: bool) -> None:
        nonlocal choosing
        if name == _CHOICE:
            choosing = entering
            (enter if entering else leave)(name)

    handles: list[Any] = []
    try:
        for path, module in _beside_the_decoder(adapter):
            handles.append(module.register_forward_pre_hook(partial(enter, path)))
            handles.append(module.register_forward_hook(partial(leave, path)))
        with counter, _Ledger() as ledger, listening(tally):
            run()
    finally:
        for handle in handles:
            handle.remove()
    uncounted = tuple(
        Uncounted(str(op), calls, output_bytes)
        for op, (calls, output_bytes) in sorted(ledger.seen.items(), key=lambda item: (-item[1][1], str(item[0])))
        if op not in counter.flop_registry
    )
    choice = seen.pop(_CHOICE, 0) // 2
    return Breakdown(
        counter.get_total_flops() // 2, choice, {path: flops // 2 for path, flops in seen.items() if flops}, uncounted
    )


def _beside_the_decoder(adapter: Adapter) -> Iterator[tuple[str, nn.Module]]:
    """Each module that is neither the decoder, nor around it, nor the head: the vision tower, the projector."""
    *above, _ = adapter.decoder_path.split(".")
    for depth in range(len(above) + 1):
        parent = adapter.model.get_submodule(".".join(above[:depth]))
        for name, module in parent.named_children():
            path = ".".join([*above[:depth], name])
            if not f"{adapter.decoder_path}.".startswith(f"{path}.") and path != "lm_head":
                yield path, module


class _Ledger(TorchDispatchMode):
    """Remembers each operator that was dispatched: how often, and the bytes that it put out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Any, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        calls, output_bytes = self.seen.get(func._overloadpacket, (0, 0))
        parts = output if isinstance(output, tuple | list) else (output,)
        made = sum(part.nbytes for part in parts if isinstance(part, Tensor))
        self.seen[func._overloadpacket] = calls + 1, output_bytes + made
        return output


def _flash_for_cpu(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _flash_for_cpu_backward(grad_out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_backward_flop_count(grad_out, query, key, value)


# torch 2.13 has no formulas for the kernels that SDPA takes on a CPU and counts them as nothing (pytorch#195460).
_FORMULAS = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _flash_for_cpu,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_for_cpu_backward,
}


def fvcore(workload: Workload, method: Method | None) -> tuple[int | None, str | None]:
    """fvcore's MACs of one prefill, or None and why not. Its tracer cannot follow autograd: a choice is replayed."""
    if method is None:
        return _fvcore(workload, None)
    with prune(workload.model, method) as trace:
        workload.prefill()
    return _fvcore(workload, trace)


def _fvcore(workload: Workload, trace: Trace | None) -> tuple[int | None, str | None]:
    """Under a method's choice replayed, at no cost."""
    try:
        if trace is None:
            return _fvcore_macs(workload), None
        with prune(workload.model, _Replay.of(trace)):
            return _fvcore_macs(workload), None
    # torch.jit.trace fails in as many ways as models are written; the torch count stands by itself.
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return None, f"{type(error).__name__}: {lines[0]}"[:200]


class _LogitsOnly(nn.Module):
    """fvcore traces tensors in, tensors out: no keywords, no dictionaries, no cache.

    constants: inputs that models read on the host, such as a picture's size, and that a tracer must not touch.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...], constants: dict[str, Tensor]):
        super().__init__()
        self.model = model
        self.names = names
        self.constants = constants

    def forward(self, *tensors: Tensor) -> Tensor:
        """Logits of the last row."""
        inputs = dict(zip(self.names, tensors, strict=True)) | self.constants
        return self.model(**inputs, use_cache=False, logits_to_keep=1).logits


def _fvcore_macs(workload: Workload) -> int:
    traced = {name: value for name, value in workload.inputs.items() if value.is_floating_point()}
    constants = {name: value for name, value in workload.inputs.items() if name not in traced}
    wrapped = _LogitsOnly(workload.model, tuple(traced), constants)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = FlopCountAnalysis(wrapped, tuple(traced.values()))
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
        # Norms are the one thing without a product that fvcore counts; torch's counter does not.
        analysis.set_op_handle("aten::scaled_dot_product_attention", _sdpa_macs, "aten::layer_norm", _nothing)
        return int(analysis.total())


def _nothing(_inputs: list[Any], _outputs: list[Any]) -> int:
    return 0


def _sdpa_macs(inputs: list[Any], _outputs: list[Any]) -> int:
    """Scores and values: B · H · S_q · S_k · (d_qk + d_v)."""
    query, key, value = (get_shape(tensor) for tensor in inputs[:3])
    assert query is not None
    assert key is not None
    assert value is not None
    batch, heads, queries, width = query
    return batch * heads * queries * key[2] * (width + value[3])


@dataclass(frozen=True, kw_only=True)
class _Replay(Method):
    """Keeps what a trace kept, at no cost. Nameless, so in no registry."""

    kept: dict[int, tuple[Tensor, ...]]

    name: ClassVar[str] = ""

    @classmethod
    def of(cls, trace: Trace) -> "_Replay":
        """The stages and choices of a trace, on the inputs that it came from."""
        first = trace.schedules[0]
        cls = _EarlyReplay if first.layers == (0,) else cls
        return cls(layers=first.layers, budgets=first.budgets, kept={stage.layer: stage.kept for stage in trace.stages})

    def select(self, view: View) -> Selection:
        """Find the kept numbers among the current ones."""
        kept = self.kept[view.layer]
        return Selection(
            tuple(torch.searchsorted(p.number, numbers) for p, numbers in zip(view.pictures, kept, strict=True))
        )


@dataclass(frozen=True, kw_only=True)
class _EarlyReplay(_Replay):
    """The same before the decoder."""

    name: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.ENCODER
