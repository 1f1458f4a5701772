"""Work that really ran, by torch's counter and by fvcore.

torch counts FLOPs (2 per multiply-add) of every operator that is dispatched, backward passes included; fvcore counts
multiply-adds (it calls them flops) of a traced forward. Both lose attention under SDPA on a CPU; the missing formulas
are supplied here. Attention is counted dense, not halved for causality, as both do.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from fvcore.nn import FlopCountAnalysis
from fvcore.nn.jit_handles import get_shape
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from trio_core.method import Method
from trio_core.pruning import Trace, prune
from trio_core.spans import listening
from trio_core.view import Selection, View
from trio_profile.schema import Counted
from trio_profile.workload import Workload

_aten = torch.ops.aten
_SUSPECTS = ("attention", "mm", "conv", "linear", "einsum", "matmul", "dot")


def measure(workload: Workload, method: Method | None) -> tuple[Counted, Trace | None]:
    """Count one prefill, dense (method None) or pruned. Also returns what pruning did."""
    if method is None:
        return _with_fvcore(_torch_count(workload.prefill), workload, None), None
    with prune(workload.model, method) as trace:
        counted = _torch_count(workload.prefill)
    return _with_fvcore(counted, workload, trace), trace


def _torch_count(run: Callable[[], Any]) -> Counted:
    counter = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    inside_selection, entered = 0, 0

    def tally(name: str, entering: bool) -> None:
        nonlocal inside_selection, entered
        if name != "selection":
            return
        if entering:
            entered = counter.get_total_flops()
        else:
            inside_selection += counter.get_total_flops() - entered

    with counter, _Ledger() as ledger, listening(tally):
        run()
    uncounted = sorted(
        str(op) for op in ledger.seen if op not in counter.flop_registry and any(word in str(op) for word in _SUSPECTS)
    )
    return Counted(torch_flops=counter.get_total_flops(), selection_flops=inside_selection, uncounted=tuple(uncounted))


class _Ledger(TorchDispatchMode):
    """Remembers each operator that was dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func._overloadpacket)
        return func(*args, **(kwargs or {}))


def _flash_for_cpu(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _flash_for_cpu_backward(grad_out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_backward_flop_count(grad_out, query, key, value)


# torch 2.13 has no formulas for the kernels that SDPA takes on a CPU and counts them as nothing (pytorch#195460).
_FORMULAS = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _flash_for_cpu,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_for_cpu_backward,
}


def _with_fvcore(counted: Counted, workload: Workload, trace: Trace | None) -> Counted:
    """Add fvcore's count. Its tracer cannot follow autograd, so a method's choice is replayed, at no cost."""
    try:
        if trace is None:
            macs = _fvcore_macs(workload)
        else:
            with prune(workload.model, _Replay.of(trace)):
                macs = _fvcore_macs(workload)
    # torch.jit.trace fails in as many ways as models are written; the torch count stands by itself.
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return counted.model_copy(update={"fvcore_reason": f"{type(error).__name__}: {lines[0]}"[:200]})
    return counted.model_copy(update={"fvcore_macs": macs})


class _LogitsOnly(nn.Module):
    """fvcore traces tensors in, tensors out: no keywords, no dictionaries, no cache."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        """Logits of the last row."""
        inputs = dict(zip(self.names, tensors, strict=True))
        return self.model(**inputs, use_cache=False, logits_to_keep=1).logits


def _fvcore_macs(workload: Workload) -> int:
    wrapped = _LogitsOnly(workload.model, tuple(workload.inputs))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = FlopCountAnalysis(wrapped, tuple(workload.inputs.values()))
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
        return cls(layers=first.layers, budgets=first.budgets, kept={stage.layer: stage.kept for stage in trace.stages})

    def select(self, view: View) -> Selection:
        """Find the kept numbers among the current ones."""
        kept = self.kept[view.layer]
        return Selection(
            tuple(torch.searchsorted(p.number, numbers) for p, numbers in zip(view.pictures, kept, strict=True))
        )
