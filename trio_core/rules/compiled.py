"""TRIO's saliency as one graph for torch.compile, which fuses its operators.

`saliency.py` saves operators by hand. Here the same tail is written plainly: the model's own norms run, and autograd
goes through all of it. The compiler leaves few kernels. `docs/explanation/saliency.md` says how long it takes.

Shapes: as in `saliency.py`.
"""

import time
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch._dynamo import exc as dynamo
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from trio_core.errors import TrioError
from trio_core.rules.attention import AttentionLayer, LayerCall, Readout, by_key_head
from trio_core.rules.checks import check_gradient
from trio_core.rules.saliency import finish_rows, loss_slope
from trio_core.tensors import HiddenBSD, LogitsBPV, Places, ScoresBN, differentiable, rows_at, wide_type, widened

BACKEND = "inductor"
"""The compiler, by torch.compile's name for it."""
_MESSAGE_LENGTH = 200
"""The most characters of a compiler's message that a note repeats."""
_GRAPHS = 64
"""The most graphs of all models in a process. A model needs one for each batch size, k_pos, dtype and set of hooks."""


class NotCompiled(TrioError):
    """The saliency cannot be compiled here. The message says why."""


def compiled_saliency(call: LayerCall, readout: Readout, rows: Places, visual: Places) -> tuple[ScoresBN, float]:
    """Return the scores of `tail_saliency`, computed by compiled code.

    Also return the seconds that torch.compile has needed in this process so far. All stages share a graph, and so do
    models of one shape.

    call, readout, rows, visual: as in `tail_saliency`; `rows` must be a slice.
    Returns [B, V] in float64, and seconds.

    Raises NotCompiled for a padded batch, for a layer with an attention mask, for float16 (the gradient would leave its
    range), while operators are counted or traced, and if torch.compile fails or is switched off.
    """
    if not isinstance(rows, slice):
        raise NotCompiled("the batch is padded")
    if reason := _reason_against(call):
        raise NotCompiled(reason)
    return _compiler(BACKEND).run(call, readout, rows, visual)


def _reason_against(call: LayerCall) -> str | None:
    """Why this call is not compiled; None if it is."""
    if is_in_torch_dispatch_mode() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "operators are being counted or traced"
    if call.mask is not None:
        return "the layer has an attention mask"
    device = call.hidden.device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16
    if autocast or call.hidden.dtype == torch.float16:
        return "float16 has too narrow a range"
    return None


class _Compiler:
    """`_scores` behind torch.compile, how long compiling took, and the models on which it failed.

    A model is known by its final norm. It is not kept alive.
    """

    def __init__(self, backend: str):
        self._backend = backend
        self._compiled: Any = None
        self._graphs = 0
        self._seconds = 0.0
        self._failures: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()

    def run(self, call: LayerCall, readout: Readout, rows: slice, visual: Places) -> tuple[ScoresBN, float]:
        """As `compiled_saliency`. Raises NotCompiled. A model that the compiler failed on is not tried again."""
        model = readout.norm
        assert isinstance(model, nn.Module)
        if model in self._failures:
            raise NotCompiled(self._failures[model])
        graphs, start = self._graphs, time.perf_counter()
        try:
            scores = self._scores(call, readout, rows, visual)
        except NotCompiled:
            raise
        except Exception as error:  # a compiler may fail in any way, and without it the same scores are computed
            if any(isinstance(cause, torch.OutOfMemoryError | MemoryError) for cause in _with_causes(error)):
                raise
            message = f"torch.compile failed with {type(error).__name__}: {' '.join(str(error).split())}"
            reason = message[:_MESSAGE_LENGTH]
            if isinstance(error, dynamo.TorchDynamoException) and not isinstance(error, dynamo.FailOnRecompileLimitHit):
                self._failures[model] = reason
            raise NotCompiled(reason) from error
        if self._graphs > graphs:
            self._seconds += time.perf_counter() - start
        return scores, self._seconds

    def _scores(self, call: LayerCall, readout: Readout, rows: slice, visual: Places) -> ScoresBN:
        if self._compiled is None:
            self._compiled = torch.compile(_scores, backend=self._counting_backend, fullgraph=True)
        tokens = int(call.hidden.shape[1])
        with torch.inference_mode(False), torch.no_grad():
            # Tensors of our own: the marks below must not be found on the model's.
            hidden, cos, sin = (differentiable(part.detach()) for part in (call.hidden, *call.rotary))
            among = (visual.start, tokens - visual.stop) if isinstance(visual, slice) else visual.view_as(visual)
            for part in (hidden, cos, sin, among):
                if isinstance(part, Tensor):
                    torch._dynamo.maybe_mark_dynamic(part, 1)
            rows_from_end = tokens - rows.start, tokens - rows.stop
            with torch._dynamo.config.patch(
                trace_autograd_ops=True,
                skip_nnmodule_hook_guards=False,  # a hook that is added or removed later makes another graph
                recompile_limit=_GRAPHS,
            ):
                return self._compiled(hidden, cos, sin, call.attention(), readout, rows_from_end, among, call.causal)

    def _counting_backend(self, graph: Any, inputs: Any) -> Any:
        self._graphs += 1
        return torch._dynamo.lookup_backend(self._backend)(graph, inputs)


_compiler = cache(_Compiler)


def _with_causes(error: BaseException | None) -> list[BaseException]:
    """An error and those that it came from."""
    errors: list[BaseException] = []
    while error is not None and error not in errors:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return errors


def _scores(
    hidden_BSD: HiddenBSD,
    cos_BSE: Tensor,
    sin_BSE: Tensor,
    layer: AttentionLayer,
    readout: Readout,
    rows_from_end: tuple[int, int],
    among: tuple[int, int] | Tensor,
    causal: bool,
) -> ScoresBN:
    """[B, V], float64: the saliency of the visual tokens.

    rows_from_end: where the supervised rows begin and where they end, counted from the end of the sequence.
    among: how many tokens stand before the visual ones, and how many after them. Or the places of these, [B, V].

    Both stay the same when a stage drops visual tokens, so that all stages share a graph.

    Raises NotCompiled where Python runs this code itself, and UnsupportedModel for a part of the layer that autograd
    cannot differentiate.
    """
    if not torch.compiler.is_compiling():
        raise NotCompiled("torch.compile is switched off in this process")
    tokens = hidden_BSD.shape[1]
    rows = slice(tokens - rows_from_end[0], tokens - rows_from_end[1])
    visual = among if isinstance(among, Tensor) else slice(among[0], tokens - among[1])

    def logits(hidden_BSD: HiddenBSD) -> LogitsBPV:
        normed_BSD = layer.norm(hidden_BSD)
        heads_BSNE = check_gradient("the key projection of the probed layer", normed_BSD, layer.key(normed_BSD))
        key_BSNE = _rotated(heads_BSNE, cos_BSE, sin_BSE)
        query_BPHE = layer.query(normed_BSD[:, rows].detach())
        query_BPHE = _rotated(query_BPHE, cos_BSE[:, rows], sin_BSE[:, rows]) * layer.scaling
        scores = by_key_head(query_BPHE, key_BSNE.shape[2]) @ key_BSNE.permute(0, 2, 3, 1)
        if layer.softcap is not None:
            scores = layer.softcap * (scores / layer.softcap).tanh()
        scores = widened(scores).unflatten(2, (-1, rows_from_end[0] - rows_from_end[1]))
        if causal:
            places_S = torch.arange(tokens, device=hidden_BSD.device)
            scores = scores.masked_fill(places_S > places_S[rows, None], -torch.inf)
        weights_BNRS = scores.flatten(2, 3).softmax(dim=-1)
        sums_BMD = weights_BNRS.to(normed_BSD.dtype).flatten(1, 2) @ normed_BSD
        sums_BNRD = sums_BMD.unflatten(1, weights_BNRS.shape[1:3])
        return readout(finish_rows(layer, sums_BNRD, hidden_BSD[:, rows].detach()))

    with torch.enable_grad():
        hidden_BSD = hidden_BSD.detach().requires_grad_()
        logits_BPV = logits(hidden_BSD)
        slope_BPV, log_scale_B = loss_slope(logits_BPV.detach())
        (gradient_BSD,) = torch.autograd.grad(logits_BPV, hidden_BSD, slope_BPV)
    gradient_BVD = rows_at(gradient_BSD, visual)
    length_BV = torch.linalg.vector_norm(gradient_BVD, dim=-1, dtype=wide_type(gradient_BVD))
    return length_BV * log_scale_B[:, None].exp()


def _rotated(heads_BSHE: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding, as `attention.rotate`, in operators that autograd and a compiler can follow."""
    first, second = heads_BSHE.chunk(2, dim=-1)
    return heads_BSHE * cos_BSE.unsqueeze(2) + torch.cat([-second, first], dim=-1) * sin_BSE.unsqueeze(2)
