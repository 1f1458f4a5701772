"""Work that really ran, by torch's counter and by fvcore.

torch counts FLOPs (2 per multiply-add) of every operator that is dispatched, backward passes included; fvcore counts
multiply-adds (it calls them flops) of a traced forward. Both lose attention under SDPA on a CPU; what is missing is
supplied, for torch in `formulas.py`, for fvcore here. Attention is counted dense, not halved for causality, as both do.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

import torch
from fvcore.nn import FlopCountAnalysis
from fvcore.nn.jit_handles import get_shape
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Selection, View
from trio_core.models.adapter import Adapter
from trio_core.pruning import prune
from trio_core.spans import listening
from trio_core.trace import Trace
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.operator_formulas import OUR_FORMULA, TORCHS_FORMULA, supplied
from trio_profile.records.schema import Counted

_CHOICE = "selection"
_SUSPECTS = ("attention", "mm", "conv", "linear", "einsum", "matmul", "dot")


@dataclass(frozen=True)
class Operator:
    """An operator that was dispatched: how often, how much it put out, and what it cost by whose formula.

    formula: `torch`, `trio-profile`, or None with flops 0 where there is none.
    """

    op: str
    calls: int
    output_bytes: int
    flops: int
    formula: str | None

    @property
    def has_product(self) -> bool:
        """Whether its name speaks of a matrix product or an attention, or is another library's and says nothing."""
        if self.op.startswith("aten.upsample"):  # bilinear ones weigh neighbours, and multiply no matrices
            return False
        return any(word in self.op for word in _SUSPECTS) or not self.op.startswith(("aten.", "prim"))


@dataclass(frozen=True)
class Breakdown:
    """Work by where it ran, in MACs, and by what ran.

    macs: all of it. selection_macs: inside the methods' choices. modules: everything that is neither the decoder nor
    the head, by path; parts: those and all modules within them. operators: each one, most work first, then most bytes.
    """

    macs: int
    selection_macs: int
    modules: dict[str, int]
    parts: dict[str, int]
    operators: tuple[Operator, ...]

    @property
    def uncounted(self) -> tuple[Operator, ...]:
        """What ran without a formula."""
        return tuple(part for part in self.operators if part.formula is None)


def measure(workload: Workload, method: Method | None) -> tuple[Counted, Trace | None]:
    """Count one prefill, dense (method None) or pruned. Also returns what pruning did."""
    seen, trace = prefill(workload, method)
    suspects = sorted(part.op for part in seen.uncounted if part.has_product)
    counted = Counted(torch_flops=2 * seen.macs, selection_flops=2 * seen.selection_macs, uncounted=tuple(suspects))
    traced, reason = _fvcore(workload, trace)
    return counted.model_copy(update={"fvcore_macs": traced and traced.macs, "fvcore_reason": reason}), trace


def prefill(workload: Workload, method: Method | None) -> tuple[Breakdown, Trace | None]:
    """One prefill by where its work ran, dense (method None) or pruned, and what pruning did."""
    if method is None:
        return breakdown(workload.adapter, workload.prefill), None
    with prune(workload.model, method) as trace:
        return breakdown(workload.adapter, workload.prefill), trace


def breakdown(adapter: Adapter, run: Callable[[], Any]) -> Breakdown:
    """Count what `run` does with the adapter's model."""
    ours = supplied()
    counter = FlopCounterMode(display=False, custom_mapping=ours)
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
    beside = list(beside_the_decoder(adapter))
    try:
        for path, whole in beside:
            for inner, module in whole.named_modules(prefix=path):
                handles.append(module.register_forward_pre_hook(partial(enter, inner)))
                handles.append(module.register_forward_hook(partial(leave, inner)))
        with counter, _Ledger() as ledger, listening(tally):
            run()
    finally:
        for handle in handles:
            handle.remove()
    flops_of = counter.flop_counts["Global"]
    operators = [
        Operator(
            op=str(op),
            calls=calls,
            output_bytes=output_bytes,
            flops=flops_of.get(op, 0),
            formula=OUR_FORMULA if op in ours else TORCHS_FORMULA if op in counter.flop_registry else None,
        )
        for op, (calls, output_bytes) in ledger.seen.items()
    ]
    operators.sort(key=lambda part: (-part.flops, -part.output_bytes, part.op))
    choice = seen.pop(_CHOICE, 0) // 2
    parts = {path: flops // 2 for path, flops in seen.items() if flops}
    modules = {path: parts[path] for path, _ in beside if path in parts}
    return Breakdown(counter.get_total_flops() // 2, choice, modules, parts, tuple(operators))


def decoding(workload: Workload, method: Method | None, prefill_macs: int) -> int:
    """MACs of the forwards after a prefill that took so many: one for each new token but the first."""
    with nullcontext() if method is None else prune(workload.model, method):
        return breakdown(workload.adapter, workload.generate).macs - prefill_macs


class _Ledger(TorchDispatchMode):
    """Remembers each operator that was dispatched: how often, and the bytes that it put out."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Any, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        packet = getattr(func, "_overloadpacket", func)
        calls, output_bytes = self.seen.get(packet, (0, 0))
        parts = output if isinstance(output, tuple | list) else (output,)
        made = sum(part.nbytes for part in parts if isinstance(part, Tensor))
        self.seen[packet] = calls + 1, output_bytes + made
        return output


@dataclass(frozen=True)
class Traced:
    """fvcore's MACs of one prefill, all and by module path. Its tracer follows no autograd, so no choice is in it."""

    macs: int
    parts: dict[str, int]

    def leaves_out(self, seen: Breakdown) -> dict[str, int]:
        """What ran beside the decoder and is not traced, by the modules that explain it, as far in as they go."""
        missing = {path: macs - self.parts.get(path, 0) for path, macs in seen.parts.items()}
        named: dict[str, int] = {}

        def descend(path: str) -> None:
            within = [part for part in missing if part.startswith(f"{path}.")]
            inner = [part for part in within if not any(part.startswith(f"{outer}.") for outer in within)]
            for part in inner if self.parts.get(path) else ():
                descend(part)
            if rest := missing[path] - sum(macs for part, macs in named.items() if part.startswith(f"{path}.")):
                named[path] = rest

        for path in seen.modules:
            descend(path)
        return named


def fvcore(workload: Workload, method: Method | None) -> tuple[Traced | None, str | None]:
    """fvcore's count, or None and why not. A method's choice is made beforehand and replayed."""
    if method is None:
        return _fvcore(workload, None)
    with prune(workload.model, method) as trace:
        workload.prefill()
    return _fvcore(workload, trace)


def _fvcore(workload: Workload, trace: Trace | None) -> tuple[Traced | None, str | None]:
    """Under a method's choice replayed, at no cost."""
    try:
        if trace is None:
            return _traced(workload), None
        with prune(workload.model, _Replay.of(trace)):
            return _traced(workload), None
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


def _traced(workload: Workload) -> Traced:
    traced = {name: value for name, value in workload.inputs.items() if value.is_floating_point()}
    constants = {name: value for name, value in workload.inputs.items() if name not in traced}
    wrapped = _LogitsOnly(workload.model, tuple(traced), constants)
    with torch.no_grad(), warnings.catch_warnings(), _sizes_that_round():
        warnings.simplefilter("ignore")
        analysis = FlopCountAnalysis(wrapped, tuple(traced.values()))
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
        analysis.set_op_handle("aten::scaled_dot_product_attention", _sdpa_macs, "aten::_convolution_mode", _conv_macs)
        for op in _WITHOUT_PRODUCTS:
            analysis.set_op_handle(op, _nothing)
        parts = {path.removeprefix("model."): int(macs) for path, macs in analysis.by_module().items() if path}
        return Traced(int(analysis.total()), parts)


@contextmanager
def _sizes_that_round() -> Iterator[None]:
    """A tracer's sizes are tensors, which `round` refuses, and LLaVA-NeXT rounds a picture's size."""
    if hasattr(Tensor, "__round__"):
        yield
        return
    Tensor.__round__ = lambda self, digits=None: round(self.item(), digits)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        del Tensor.__round__  # pyright: ignore[reportAttributeAccessIssue]


_WITHOUT_PRODUCTS = (
    "aten::layer_norm",
    "aten::group_norm",
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::upsample_nearest2d",
    "aten::upsample_bilinear2d",
    "aten::adaptive_avg_pool2d",
    "aten::grid_sampler",
)
"""What fvcore counts by its elements, and torch's counter, as we do, not at all."""


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


def _conv_macs(inputs: list[Any], outputs: list[Any]) -> int:
    """A convolution padded by a mode's name, `valid` or `same`: output elements times what each is summed over."""
    weight, out = get_shape(inputs[1]), get_shape(outputs[0])
    assert weight is not None
    assert out is not None
    return prod(out) * prod(weight[1:])


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
