"""Some rows of a decoder layer's attention, computed from the layer's own modules and beside its kernel.

Projections and the FFN are called, never read: adapters (LoRA), quantised and offloaded weights stay right. Norms are
computed in `norm.py`, with the scale of the model's module.

Shapes: B batch, S tokens, P rows asked for, D width, H query heads, N key heads, G = H / N query heads that read one
key head, E head width, R = G · P, M = N · R.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_mask

from trio_core.rules.checks import check_gradient
from trio_core.rules.norm import RmsNorm
from trio_core.tensors import HiddenBSD, LogitsBPV, MaskBS, Places, ScoresBS, rows_at, widened, with_gradient


@dataclass(frozen=True)
class Readout:
    """The model's final norm and head: [B, P, D] → [B, P, V].

    norm: the final norm, by the model's own module.
    head: normed rows [B, P, D] → logits [B, P, V].
    """

    norm: Callable[[Tensor], Tensor]
    head: Callable[[Tensor], LogitsBPV]

    def __call__(self, hidden: HiddenBSD) -> LogitsBPV:
        """[B, P, V], by the model's own modules. Raises UnsupportedModel where they give no gradient."""
        normed = check_gradient("the final norm", hidden, self.norm(hidden))
        return check_gradient("the head", normed, self.head(normed))


@dataclass(frozen=True)
class AttentionLayer:
    """A decoder layer taken apart into callables. Each but `norm` calls the model's own modules.

    norm: the norm before attention.
    query: normed rows [B, P, D] → [B, P, H, E], with bias and head norm, before rotary.
    key: normed rows [B, S, D] → [B, S, N, E], with bias and head norm, before rotary.
    value: normed rows [B, S, D] → [B, S, N, E], with bias and head norm.
    output: attended rows [B, P, H · E] → [B, P, D].
    finish: (residual rows, attention's output), both [B, P, D] → the layer's output rows [B, P, D]. It runs the FFN
        and every norm after attention.
    scaling: factor of the scores.
    softcap: tanh limit of the scores, or None.
    row_by_row: whether each query depends on its own row alone. Hooks on the query projection may need all rows.
    affine: whether `value` maps sums to sums, up to a constant. A norm of the values does not.
    """

    norm: RmsNorm
    query: Callable[[Tensor], Tensor]
    key: Callable[[Tensor], Tensor]
    value: Callable[[Tensor], Tensor]
    output: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor, Tensor], Tensor]
    scaling: float
    softcap: float | None = None
    row_by_row: bool = True
    affine: bool = True

    def query_at(self, normed: Tensor, rows: Places) -> Tensor:
        """[B, P, H, E]: the queries of some rows of `normed`, [B, S, D], before rotary."""
        if self.row_by_row:
            return self.query(rows_at(normed, rows))
        return rows_at(self.query(normed), rows)


@dataclass(frozen=True)
class LayerCall:
    """A decoder layer and the residual stream that enters it, with the mask and positions of that moment.

    hidden: [B, S, D], the input.
    run: [B, S, D] → [B, S, D], the whole layer. It writes no cache and runs no hook.
    attention: returns the layer taken apart.
    rotary: cosines and sines, each [B or 1, S, E], or narrower where only a part of each head is turned.
    mask: the attention mask that the layer was given.
    causal: whether a layer without a mask looks back only. PaliGemma's layers look both ways.
    extra: returns what the layer does beside its parts, such as a hook, in words; None for a plain layer.
    """

    hidden: HiddenBSD
    run: Callable[[HiddenBSD], HiddenBSD]
    attention: Callable[[], AttentionLayer]
    rotary: tuple[Tensor, Tensor]
    mask: Tensor | BlockMask | None
    causal: bool = True
    extra: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Attended:
    """The attention scores of some rows, and the tensors that a backward pass needs.

    layer: the layer taken apart.
    cos, sin: [B, S, E], the rotary embedding.
    normed: [B, S, D], after the layer's first norm.
    heads: [B, S, N, E], keys before rotary.
    query: [B, N, R, E], after rotary, times the layer's `scaling`.
    scores: [B, N, R, S] in at least float32, −∞ where a row may not look. The rows of one query head lie side by side
        in R.
    rows: P.
    """

    layer: AttentionLayer
    cos: Tensor
    sin: Tensor
    normed: Tensor
    heads: Tensor
    query: Tensor
    scores: Tensor
    rows: int

    def by_query_head(self) -> Tensor:
        """[B, H, P, S]: the attention weights in the layout of an attention map."""
        return self.scores.softmax(dim=-1).flatten(1, 2).unflatten(1, (-1, self.rows))


def attend(call: LayerCall, rows: Places, valid: MaskBS, *, differentiable_keys: bool = False) -> Attended:
    """The attention scores of some rows of a layer, over all tokens.

    call: the layer at its input [B, S, D].
    rows: [B, P] places. Or a slice of P places, only if no sample is padded.
    valid: [B, S], False at padding.
    differentiable_keys: record the keys' graph, so that `heads` can be differentiated with respect to `normed`.

    Raises UnsupportedModel for a key projection that autograd should record and cannot.
    """
    return next(attend_each(call, [rows], valid, differentiable_keys=differentiable_keys))


def attend_each(
    call: LayerCall, blocks: Iterable[Places], valid: MaskBS, *, differentiable_keys: bool = False
) -> Iterator[Attended]:
    """`attend` for one block of rows after the other. Only one block's scores are in memory at a time.

    blocks: each as `rows` of `attend`. The keys are projected once for all blocks.
    """
    layer = call.attention()
    cos, sin = (part.expand(len(valid), -1, -1) for part in call.rotary)
    normed = layer.norm(call.hidden)
    if differentiable_keys:
        with torch.enable_grad():
            normed = with_gradient(normed)
            heads = check_gradient("the key projection of the probed layer", normed, layer.key(normed))
    else:
        heads = layer.key(normed)
    key_BSNE = rotate(heads.detach(), cos, sin)
    for rows in blocks:
        query_BPHE = layer.query_at(normed.detach(), rows)
        query_BPHE = rotate(query_BPHE, rows_at(cos, rows), rows_at(sin, rows)).mul_(layer.scaling)
        # [B, N, R, E]: each key head with the query rows that read it.
        query = query_BPHE.unflatten(2, (heads.shape[2], -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        scores = query @ key_BSNE.permute(0, 2, 3, 1)
        if layer.softcap is not None:
            scores = layer.softcap * (scores / layer.softcap).tanh()
        scores = widened(scores).unflatten(2, (-1, query_BPHE.shape[1]))
        scores = scores.masked_fill_(_hidden(call, rows, valid), -torch.inf).flatten(2, 3)
        yield Attended(layer, cos, sin, normed, heads, query, scores, query_BPHE.shape[1])


def attention_row(call: LayerCall, rows: Places, valid: MaskBS) -> ScoresBS:
    """[B, S]: what one row of each sample attends to in a layer, averaged over the heads.

    rows: as in `attend`, with P = 1.
    """
    return attend(call, rows, valid).by_query_head().mean(dim=1)[:, 0]


def rotate(heads: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """Rotary embedding of [B, S, heads, E]. The two halves of E are rotated against each other.

    Where cosines and sines are narrower than E, the rest of E stays as it is.
    """
    return _turned(heads, cos_BSE.unsqueeze(2), sin_BSE.unsqueeze(2).chunk(2, dim=-1), 1)


def rotate_back(slope: Tensor, cos_BSE: Tensor, sin_BSE: Tensor) -> Tensor:
    """The transpose of `rotate`: ∂ loss / ∂ heads from `slope` = ∂ loss / ∂ rotated heads, both [B, S, heads, E]."""
    first, second = sin_BSE.unsqueeze(2).chunk(2, dim=-1)
    return _turned(slope, cos_BSE.unsqueeze(2), (second, first), -1)


def _turned(values: Tensor, cos: Tensor, sin: tuple[Tensor, ...], sign: int) -> Tensor:
    """[a · cos_a − sign · b · sin_0, b · cos_b + sign · a · sin_1]: a and b are the two halves of the last axis.

    values: [B, S, heads, E].
    cos: [B, S, 1, E]. sin: two tensors [B, S, 1, E / 2].
    sign: 1 to rotate, −1 to rotate back.
    """
    if cos.shape[-1] < values.shape[-1]:
        part, rest = values.tensor_split([cos.shape[-1]], dim=-1)
        return torch.cat([_turned(part, cos, sin, sign), rest.to(torch.result_type(values, cos))], dim=-1)
    # Contiguous, even if `values` is a transposed view.
    turned = torch.empty(values.shape, dtype=torch.result_type(values, cos), device=values.device)
    torch.mul(values, cos, out=turned)
    first, second = values.chunk(2, dim=-1)
    to_first, to_second = turned.chunk(2, dim=-1)
    to_first.addcmul_(second, sin[0], value=-sign)
    to_second.addcmul_(first, sin[1], value=sign)
    return turned


@lru_cache(maxsize=8)
def _later(start: int, stop: int, tokens: int, device: torch.device) -> Tensor:
    """[P, S]: which tokens come after each of the rows start … stop − 1. Later calls with the same sizes reuse it."""
    with torch.inference_mode(False):
        return torch.ones(stop - start, tokens, dtype=torch.bool, device=device).triu_(start + 1)


def _hidden(call: LayerCall, rows: Places, valid_BS: Tensor) -> Tensor:
    """[B or 1, 1, 1, P or 1, S]: which tokens each row may not look at. The layer's own mask decides, if it has one."""
    mask, tokens = call.mask, valid_BS.shape[1]
    if isinstance(mask, Tensor) and mask.ndim == 4:
        picked_BPS = rows_at(mask.expand(len(valid_BS), -1, -1, -1)[:, 0], rows)
        return (~picked_BPS if picked_BPS.dtype == torch.bool else picked_BPS < 0)[:, None, None]
    if isinstance(rows, slice):
        if call.causal and not isinstance(mask, BlockMask):  # a slice says that no sample is padded
            return _later(rows.start, rows.stop, int(tokens), valid_BS.device)[None, None, None]
        rows = torch.arange(rows.start, rows.stop, device=valid_BS.device).expand(len(valid_BS), -1)
    if isinstance(mask, BlockMask):
        rule, places, shape = mask.mask_mod, rows, (len(rows), 1, rows.shape[1], tokens)
        return ~create_mask(lambda b, h, p, s: rule(b, h, places[b, p], s), *shape, rows.device)[:, None]
    padding_B1S = ~valid_BS[:, None]
    if not call.causal:
        return padding_B1S[:, None, None]
    places_S = torch.arange(tokens, device=valid_BS.device)
    return (places_S > rows[..., None]).logical_or_(padding_B1S)[:, None, None]
