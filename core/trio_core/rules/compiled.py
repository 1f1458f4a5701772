"""TRIO's saliency as one graph for torch.compile, which fuses its operators.

`saliency.py` saves operators by hand. Here the same tail is written plainly: the model's own norms run, and autograd
goes through all of it. The compiler leaves few kernels. It takes about a minute for each model in a process.

Shapes: as in `saliency.py`.
"""

import time
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from trio_core.errors import TrioError
from trio_core.rules.attention import AttentionLayer, LayerCall, Readout, by_key_head
from trio_core.rules.saliency import finish_rows, loss_slope
from trio_core.tensors import HiddenBSD, LogitsBPV, Places, ScoresBN, differentiable, rows_at, wide_type

BACKEND = "inductor"
"""The compiler, by torch.compile's name for it."""

_MOST_SAID = 200
"""How many characters of a compiler's message are told."""
_Kind = tuple[torch.device, torch.dtype, int]
"""Device, dtype and width of a model."""


class NotCompiled(TrioError):
    """The saliency cannot be compiled here. The message says why."""


def compiled_saliency(call: LayerCall, readout: Readout, rows: Places, visual: Places) -> tuple[ScoresBN, float]:
    """What `tail_saliency` returns, by compiled code, and the seconds that compiling this kind of model took so far.

    The arguments are those of `tail_saliency`. One graph serves all layers and numbers of tokens.

    Raises NotCompiled for padded samples, for a mask of the model's own, for float16, whose range the plain gradient
    would leave, while operators are counted or traced, and if the compiler fails.
    """
    if not isinstance(rows, slice):
        raise NotCompiled("the batch is padded")
    if reason := _reason_against(call):
        raise NotCompiled(reason)
    with torch.inference_mode(False), torch.no_grad():
        hidden, cos, sin = (differentiable(part) for part in (call.hidden, *call.rotary))
        tokens = int(hidden.shape[1])
        last = tokens - rows.start, tokens - rows.stop
        among = (visual.start, tokens - visual.stop) if isinstance(visual, slice) else visual
        for part in (hidden, cos, sin, among):
            if isinstance(part, Tensor):
                torch._dynamo.maybe_mark_dynamic(part, 1)
        return _compiler(BACKEND).run(hidden, cos, sin, call.attention(), readout, last, among, call.causal)


class _Compiler:
    """`_scores` behind torch.compile, and how compiling went for each kind of model."""

    def __init__(self, backend: str):
        self._compile_graph = torch._dynamo.lookup_backend(backend)
        self._scores = torch.compile(_scores, backend=self._noted, fullgraph=True)
        self._compilations = 0
        self._seconds: dict[_Kind, float] = {}
        self._failures: dict[_Kind, str] = {}

    def run(self, hidden_BSD: HiddenBSD, *others: Any) -> tuple[ScoresBN, float]:
        """The scores, and the seconds that compiling took so far. The arguments are those of `_scores`.

        Raises NotCompiled if the compiler fails, then and for this kind of model ever after.
        """
        kind = hidden_BSD.device, hidden_BSD.dtype, int(hidden_BSD.shape[-1])
        if kind in self._failures:
            raise NotCompiled(self._failures[kind])
        before, start = self._compilations, time.perf_counter()
        try:
            with torch._dynamo.config.patch(trace_autograd_ops=True):
                scores = self._scores(hidden_BSD, *others)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler may fail in any way, and without it the same scores are computed
            said = " ".join(str(error).split())
            self._failures[kind] = f"torch.compile failed with {type(error).__name__}: {said[:_MOST_SAID]}"
            raise NotCompiled(self._failures[kind]) from error
        if self._compilations > before:
            self._seconds[kind] = self._seconds.get(kind, 0.0) + time.perf_counter() - start
        return scores, self._seconds[kind]

    def _noted(self, graph: Any, inputs: Any) -> Any:
        self._compilations += 1
        return self._compile_graph(graph, inputs)


_compiler = cache(_Compiler)


def _reason_against(call: LayerCall) -> str | None:
    """Why this call is not compiled; None if it is."""
    if is_in_torch_dispatch_mode() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "operators are being counted or traced"
    if call.mask is not None:
        return "the layer has a mask of its own"
    if call.hidden.dtype == torch.float16:
        return "float16 has too narrow a range"
    return None


def _scores(
    hidden_BSD: HiddenBSD,
    cos_BSE: Tensor,
    sin_BSE: Tensor,
    layer: AttentionLayer,
    readout: Readout,
    last: tuple[int, int],
    among: tuple[int, int] | Tensor,
    causal: bool,
) -> ScoresBN:
    """[B, V], float64: the saliency of the visual tokens.

    last: where the supervised rows begin and where they end, counted from the end of the sequence.
    among: how many tokens stand before the visual ones, and how many after them. Or the places of these, [B, V].

    So no number changes from stage to stage, and a stage needs no graph of its own.
    """
    tokens = hidden_BSD.shape[1]
    rows = slice(tokens - last[0], tokens - last[1])
    visual = among if isinstance(among, Tensor) else slice(among[0], tokens - among[1])

    def logits(hidden_BSD: HiddenBSD) -> LogitsBPV:
        normed_BSD = layer.norm(hidden_BSD)
        key_BSNE = _rotated(layer.key(normed_BSD), cos_BSE, sin_BSE)
        query_BPHE = layer.query(normed_BSD[:, rows].detach())
        query_BPHE = _rotated(query_BPHE, cos_BSE[:, rows], sin_BSE[:, rows]) * layer.scaling
        scores = by_key_head(query_BPHE, key_BSNE.shape[2]) @ key_BSNE.permute(0, 2, 3, 1)
        if layer.softcap is not None:
            scores = layer.softcap * (scores / layer.softcap).tanh()
        scores = scores.to(wide_type(scores)).unflatten(2, (-1, last[0] - last[1]))
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
