"""The work that really ran, by torch's counter and by fvcore.

torch counts the FLOPs (2 for each multiply-add) of every operator that runs, backward passes included. fvcore counts
the multiply-adds of a traced forward; it calls them flops. Both miss attention under SDPA on a CPU. We supply the
formulas: for torch in `operator_formulas`, for fvcore here. Attention is counted whole and not halved for causality,
as both do.

Without weights each module runs once on the meta device. The library's whole forward cannot run there, because it reads
its inputs (placeholder checks, masks). Nothing is selected there. The work of a selection is what the method declares;
it is not counted here.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from fvcore.nn import FlopCountAnalysis
from fvcore.nn.jit_handles import get_shape
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache

from trio_core.engine.calls import cache_argument
from trio_core.methods.method import Method
from trio_core.methods.view import Selection, View
from trio_core.models.adapter import Adapter
from trio_core.trace import Trace
from trio_profile.cost.reconciliation import Operator
from trio_profile.inputs.builtin import Inputs
from trio_profile.inputs.towers import beside_the_decoder
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.operator_formulas import OUR_FORMULA, TORCHS_FORMULA, supplied
from trio_profile.profilers.regions import SELECTION, Regions
from trio_profile.records.schema import Counted
from trio_profile.text import first_line

_SUSPECTS = ("attention", "mm", "conv", "linear", "einsum", "matmul", "dot")


@dataclass(frozen=True)
class Breakdown:
    """The work of one run by place and by operator.

    macs: all of it.
    selection_macs: the part inside the method's selections.
    modules: MACs of every module beside the decoder and the head, by path.
    parts: MACs of these and of all modules inside them, by path.
    operators: those with the most work first, then those with the most bytes.
    """

    macs: int
    selection_macs: int
    modules: dict[str, int]
    parts: dict[str, int]
    operators: tuple[Operator, ...]


def measure(workload: Workload, method: Method | None) -> tuple[Counted, Trace | None]:
    """Count one prefill by both counters. Also returns pruning's trace.

    method: None for the dense model, which has no trace.
    """
    seen, trace = prefill(workload, method)
    traced, reason = fvcore(workload, method, trace)
    counted = Counted(
        torch_flops=2 * seen.macs,
        selection_flops=2 * seen.selection_macs,
        uncounted=tuple(sorted(part.op for part in seen.operators if part.product and not part.formula)),
        fvcore_macs=traced and traced.macs,
        fvcore_reason=reason,
    )
    return counted, trace


def prefill(workload: Workload, method: Method | None) -> tuple[Breakdown, Trace | None]:
    """The work of one prefill by place, and pruning's trace.

    method: None for the dense model, which has no trace.
    """
    with workload.pruned(method) as trace:
        return breakdown(workload.adapter, workload.prefill), trace


def breakdown(adapter: Adapter, run: Callable[[], Any]) -> Breakdown:
    """Count the work of `run`, which calls the adapter's model."""
    ours = supplied()
    counter = FlopCounterMode(display=False, custom_mapping=ours)
    outside = list(beside_the_decoder(adapter))
    # torch's own module tracker fails when a backward pass runs inside the forward. So we use hooks.
    regions = Regions(counter.get_total_flops)
    inner = (named for path, module in outside for named in module.named_modules(prefix=path))
    with counter, _Ledger() as ledger, regions.watching(inner):
        run()
    flops_of = counter.flop_counts["Global"]
    operators = [
        Operator(
            op=str(op),
            calls=calls,
            output_bytes=output_bytes,
            flops=flops_of.get(op, 0),
            product=_may_multiply(str(op)),
            formula=OUR_FORMULA if op in ours else TORCHS_FORMULA if op in counter.flop_registry else None,
        )
        for op, (calls, output_bytes) in ledger.seen.items()
    ]
    operators.sort(key=lambda part: (-part.flops, -part.output_bytes, part.op))
    parts = {path: flops // 2 for path, flops in regions.sums(lambda start, end: end - start).items() if flops}
    selection = parts.pop(SELECTION, 0)
    modules = {path: parts[path] for path, _ in outside if path in parts}
    return Breakdown(counter.get_total_flops() // 2, selection, modules, parts, tuple(operators))


def decoding(workload: Workload, method: Method | None, prefill_macs: int) -> int:
    """MACs of the forwards after a prefill, one for each new token but the first.

    prefill_macs: of the prefill, which are subtracted.
    """
    with workload.pruned(method):
        return breakdown(workload.adapter, workload.generate).macs - prefill_macs


def _may_multiply(op: str) -> bool:
    """Return whether an operator may multiply matrices: its name says so, or another library defines it."""
    if op.startswith("aten.upsample"):  # bilinear interpolation weighs neighbours and multiplies no matrices
        return False
    return any(word in op for word in _SUSPECTS) or not op.startswith(("aten.", "prim"))


class _Ledger(TorchDispatchMode):
    """Records how often each operator ran, and how many bytes it returned."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Any, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        packet = getattr(func, "_overloadpacket", func)
        calls, output_bytes = self.seen.get(packet, (0, 0))
        made = sum(part.nbytes for part in tree_leaves(output) if isinstance(part, Tensor))
        self.seen[packet] = calls + 1, output_bytes + made
        return output


@dataclass(frozen=True)
class Traced:
    """fvcore's MACs of one prefill, in total and by module path. Selections are missing: it cannot trace autograd."""

    macs: int
    parts: dict[str, int]

    def leaves_out(self, seen: Breakdown) -> dict[str, int]:
        """MACs that ran beside the decoder and that fvcore does not see, by the innermost modules that explain them."""
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


def fvcore(workload: Workload, method: Method | None, trace: Trace | None) -> tuple[Traced | None, str | None]:
    """fvcore's count, or None with the reason. The selections of a trace are replayed at no cost."""
    if method is not None and method.thins_tower:
        return None, f"the choice of {method.name} before the vision tower cannot be replayed"
    try:
        with workload.pruned(None if trace is None else _Replay.of(trace)):
            return _traced(workload), None
    # torch.jit.trace may fail in any way. The count by torch does not need it.
    except Exception as error:
        return None, f"{type(error).__name__}: {first_line(error)}"[:200]


class _LogitsOnly(nn.Module):
    """The model as fvcore can trace it: tensors in, tensors out, without keywords, dictionaries or a cache.

    names: names of the traced inputs.
    constants: inputs that the model reads on the host, such as a picture's size. They are not traced.
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
            analysis.set_op_handle(op, lambda *_: 0)
        parts = {path.removeprefix("model."): int(macs) for path, macs in analysis.by_module().items() if path}
        return Traced(int(analysis.total()), parts)


@contextmanager
def _sizes_that_round() -> Iterator[None]:
    """Let `round` accept a tensor. In a trace sizes are tensors, and LLaVA-NeXT rounds a picture's size."""
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
"""Operators whose elements fvcore counts as work. torch's counter and we do not."""


def _sdpa_macs(inputs: list[Any], _outputs: list[Any]) -> int:
    """MACs of attention: B · H · S_q · S_k · (d_qk + d_v)."""
    query, key, value = map(_shape, inputs[:3])
    batch, heads, queries, width = query
    return batch * heads * queries * key[2] * (width + value[3])


def _conv_macs(inputs: list[Any], outputs: list[Any]) -> int:
    """MACs of a convolution with padding `valid` or `same`: output elements times the terms of each sum."""
    return prod(_shape(outputs[0])) * prod(_shape(inputs[1])[1:])


def _shape(tensor: Any) -> list[int]:
    shape = get_shape(tensor)
    assert shape is not None
    return shape


@dataclass(frozen=True, kw_only=True)
class _Replay(Method):
    """Keeps the tokens that a trace kept, at no cost. It has no name, so it is in no registry."""

    kept: dict[int, tuple[Tensor, ...]]

    name: ClassVar[str] = ""

    @classmethod
    def of(cls, trace: Trace) -> "_Replay":
        """The method that repeats the stages and selections of a trace, on the same inputs."""
        first = trace.schedules[0]
        return cls(layers=first.layers, budgets=first.budgets, kept={stage.layer: stage.kept for stage in trace.stages})

    def _check_places(self) -> None:
        """Nothing: it repeats the stages of any method, also those before the decoder."""

    def select(self, view: View) -> Selection:
        """Find the kept tokens among the current ones."""
        kept = self.kept[view.layer]
        return Selection(
            tuple(torch.searchsorted(p.number, numbers) for p, numbers in zip(view.pictures, kept, strict=True))
        )


# --- without weights --------------------------------------------------------------------------------------------------


def on_meta(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int], steps: int) -> tuple[Breakdown, int]:
    """Count a prefill, and the MACs of `steps` forwards of one token after it.

    Only two of these forwards run. Each further one attends to one more token, so its work grows by a constant.

    inputs: of the vision tower and the projector.
    tokens_by_layer: tokens that each decoder layer runs on.
    """
    cache, batch = DynamicCache(config=adapter.model.config), len(inputs["input_ids"])
    one_each = [1] * len(adapter.layers)
    with _OneKernel():
        prefill = breakdown(adapter, lambda: _meta_prefill(adapter, inputs, tokens_by_layer, cache))
        first, second = (
            breakdown(adapter, lambda: _meta_decoder(adapter, one_each, cache, batch)).macs if steps > ran else 0
            for ran in range(2)
        )
    return prefill, steps * first + (second - first) * steps * (steps - 1) // 2


class _OneKernel(TorchFunctionMode):
    """Replace SDPA by the one operator that a CPU runs. The meta device would split it into twenty operators."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args[:3])[0]
        return func(*args, **(kwargs or {}))


def _to_meta(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.to("meta") if isinstance(value, Tensor) else value for value in args)


@torch.no_grad()
def _meta_prefill(adapter: Adapter, inputs: Inputs, tokens_by_layer: Sequence[int], cache: DynamicCache) -> None:
    model: Any = adapter.model
    features = model.model.get_video_features if "pixel_values_videos" in inputs else model.model.get_image_features
    known = signature(features).parameters
    # Pixels go to the meta device. Sizes stay on the host, which reads them. A hook moves the positions that Qwen's
    # towers compute from the sizes.
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name.endswith("rotary_pos_emb"):
                stack.enter_context(module.register_forward_pre_hook(_to_meta))
        features(**{name: _shape_only(value) for name, value in inputs.items() if name in known})
    _meta_decoder(adapter, tokens_by_layer, cache, batch=len(inputs["input_ids"]))


@torch.no_grad()
def _meta_decoder(adapter: Adapter, tokens_by_layer: Sequence[int], cache: DynamicCache, batch: int) -> None:
    """Run each layer on its number of new tokens, after those in the cache; then the head on one row."""
    model: Any = adapter.model
    width = model.config.get_text_config().hidden_size
    axes = (3,) if adapter.multi_axis_positions else ()
    for index, (layer, tokens) in enumerate(zip(adapter.layers, tokens_by_layer, strict=True)):
        hidden = torch.empty(batch, tokens, width, dtype=model.dtype, device="meta")
        positions = torch.empty(*axes, batch, tokens, dtype=torch.long, device="meta")
        layer.forward(
            hidden,
            position_embeddings=adapter.rotary(hidden, positions, index),
            attention_mask=None,
            **{cache_argument(layer): cache},
        )
    model.lm_head(torch.empty(batch, 1, width, dtype=model.dtype, device="meta"))


def _shape_only(value: Tensor) -> Tensor:
    return value.to("meta") if value.is_floating_point() else value
