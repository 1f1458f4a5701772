"""Which tokens are left from a layer on, and the library's masks and positions cut to them.

Tensors in, tensors out. B batch, S the full sequence, T what is left of it, N visual tokens, K kept ones. A batch whose
samples keep different numbers stays rectangular: shorter samples carry *fillers*, padding or dropped tokens that every
mask hides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from trio_core.methods.view import Picture
from trio_core.tensors import LeftBSD, MaskBS, MaskBT, to_device


@dataclass(frozen=True)
class Frame:
    """Which tokens are left from a layer on.

    index: [B, T], their places in the full sequence, ascending.
    valid: [B, T], False at padding and fillers.
    dropped: [B], how many tokens are gone.
    full_length: S.
    hides: whether there are fillers.
    """

    index: Tensor
    valid: MaskBS
    dropped: Tensor
    full_length: int
    hides: bool

    def on(self, device: torch.device) -> "Frame":
        """The same frame on a device. A model spread over several devices runs its layers on different ones."""
        return self if self.index.device == device else self._moved(lambda part: part.to(device))

    def places(self) -> tuple[Tensor, ...]:
        """For each sample [T], the places in the full sequence of the valid tokens that are left, ascending."""
        return tuple(index[valid] for index, valid in zip(self.index, self.valid, strict=True))

    def of_samples(self, samples: Tensor) -> "Frame":
        """The frame of some samples, in the given order. samples: [B'], indices into the batch."""
        samples = samples.to(self.index.device)
        return self._moved(lambda part: part.index_select(0, samples))

    def _moved(self, move: Callable[[Tensor], Tensor]) -> "Frame":
        return replace(self, index=move(self.index), valid=move(self.valid), dropped=move(self.dropped))

    def repeated(self, times: int) -> "Frame":
        """The frame of a batch in which each sample stands `times` times in a row."""
        return self.of_samples(torch.arange(len(self.index)).repeat_interleave(times))

    @classmethod
    def of_all(cls, valid: MaskBS) -> "Frame":
        """The frame of a whole sequence. valid: [B, S], False at padding."""
        batch, length = valid.shape
        everything = torch.arange(length, device=valid.device).expand(batch, -1)
        return cls(everything, valid, valid.new_zeros(batch, dtype=torch.long), int(length), hides=False)


def shrink(
    frame: Frame, pictures: Sequence[Picture], kept: Sequence[Tensor], lengths: Sequence[int]
) -> tuple[Tensor, Frame, tuple[Picture, ...]]:
    """Leave out the visual tokens that are not kept.

    frame: the tokens before this stage. pictures: where the visual tokens stand in it. All tensors are on one device.
    kept[b]: [K], ascending indices into pictures[b].
    lengths[b]: tokens that sample b will have, text included.

    Returns the rows [B, T] to keep of the current tokens, the new frame, and the pictures in it.
    """
    alive = frame.valid.clone()
    for sample, (picture, chosen) in enumerate(zip(pictures, kept, strict=True)):
        alive[sample, picture.rows] = False
        alive[sample, picture.rows[chosen]] = True
    width = max(lengths)
    # Order: tokens that stay, then padding, then dropped tokens. The first `width` of them form the new sequence.
    rank = torch.where(alive, 0, torch.where(frame.valid, 2, 1))
    rows = rank.argsort(dim=1, stable=True)[:, :width].sort(dim=1).values
    left = tuple(
        replace(
            picture,
            rows=torch.searchsorted(rows[sample], picture.rows[chosen]),
            number=picture.number[chosen],
            budget=len(chosen),
            first=picture.first if min(lengths) == width else None,
        )
        for sample, (picture, chosen) in enumerate(zip(pictures, kept, strict=True))
    )
    gone = [len(picture.rows) - len(chosen) for picture, chosen in zip(pictures, kept, strict=True)]
    smaller = Frame(
        frame.index.gather(1, rows),
        alive.gather(1, rows),
        frame.dropped + to_device(torch.tensor(gone), rows.device),
        frame.full_length,
        hides=min(lengths) < width,
    )
    return rows, smaller, left


def take_rows(part: Tensor, rows: Tensor) -> LeftBSD:
    """The given rows of each sample: [B or 1, S, X] → [B, T, X]. rows: [B, T], places."""
    rows = rows.to(part.device)
    return part.expand(len(rows), -1, -1).gather(1, rows[..., None].expand(-1, -1, part.shape[-1]))


def renumbered(frame: Frame, positions: Tensor, valid: MaskBS) -> Tensor:
    """[B, T]: position ids less the number of tokens dropped before each. positions: [B or 1, S]. valid: [B, S]."""
    left = torch.zeros_like(valid).scatter(1, frame.index, frame.valid)
    dropped_before = (valid & ~left).long().cumsum(dim=1)
    return (positions.expand_as(dropped_before) - dropped_before).gather(1, frame.index)


def cut_mask(
    frame: Frame,
    mask: Tensor | BlockMask | None,
    hidden: Tensor,
    later: int,
    attention: str,
    *,
    causal: bool = True,
    window: int | None = None,
) -> Tensor | BlockMask | None:
    """The library's mask over the full sequence, cut to the frame. Fillers are hidden from all tokens but themselves.

    mask: [B or 1, H or 1, Q, S + later], boolean or additive; [B, S + later] under flash attention; a BlockMask under
        flex attention; None where the library needs none.
    hidden: [B, Q, D], the layer's input.
    later: tokens since the prefill, this step's included; 0 in the prefill, whose queries are the frame's own tokens.
    attention: the name of the attention kernel.
    causal: what None means.
    window: of a layer whose cache slides, in a step after the prefill. The library's mask then begins at the first
        token inside the window; the layer holds as many tokens as a window has, some of them from before that.
    """
    batch, width = frame.index.shape
    later_index = torch.arange(frame.full_length, frame.full_length + later, device=frame.index.device)
    columns = torch.cat([frame.index, later_index.expand(batch, -1)], dim=1)
    seen = torch.cat([frame.valid, frame.valid.new_ones(batch, later)], dim=1)
    hides = frame.hides
    if window is not None and later:
        before = later - hidden.shape[1]
        held = min(width + before, window - 1) + hidden.shape[1]
        first = max(frame.full_length + before - window + 1, 0)
        columns = columns[:, -held:] - first
        seen = seen[:, -held:] & (columns >= 0)
        columns, hides = columns.clamp_min(0), hides or first > 0
    if mask is None:
        return _mask_of_fillers(seen, hidden, attention, causal) if hides else None
    if isinstance(mask, BlockMask):
        queries = torch.arange(hidden.shape[1], device=columns.device).expand(batch, -1) if later else frame.index
        return _cut_block_mask(mask, queries, columns, seen)
    seen, columns = seen.to(mask.device), columns.to(mask.device)
    if mask.ndim == 2:
        return mask.expand(batch, -1).gather(1, columns).masked_fill(~seen, 0)
    mask = mask.expand(batch, -1, -1, -1)
    if not later:
        mask = mask.gather(2, columns[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3]))
    mask = mask.gather(3, columns[:, None, None, :].expand(-1, *mask.shape[1:3], -1))
    if not hides:
        return mask
    hide = ~seen[:, None, None, :]
    if not later:
        hide = hide & ~torch.eye(width, dtype=torch.bool, device=mask.device)
    return mask.masked_fill(hide, False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min)


def _cut_block_mask(mask: BlockMask, rows: Tensor, columns: Tensor, seen: MaskBT) -> BlockMask:
    """A block mask of the library's rule, at the places of the queries [B, Q] and the keys [B, K].

    A query that may look at nothing gets zeros from the kernel.
    """
    rule, device = mask.mask_mod, mask.kv_indices.device
    rows, columns, seen = rows.to(device), columns.to(device), seen.to(device)
    # A lambda: torch counts the arguments of the rule, and run-time shape checks would wrap a named function.
    return create_block_mask(
        lambda b, h, q, k: rule(b, h, rows[b, q], columns[b, k]) & seen[b, k],
        *(len(rows), None, rows.shape[1], columns.shape[1], device),
    )


def _mask_of_fillers(seen: MaskBT, hidden: Tensor, attention: str, causal: bool) -> Tensor:
    """A mask where the library made none: causal or open. Fillers are hidden from all tokens but themselves."""
    if "flash" in attention:
        return seen
    queries, keys = hidden.shape[1], seen.shape[1]
    every = torch.ones(queries, keys, dtype=torch.bool, device=hidden.device)
    back = every.tril(keys - queries)
    itself = back.triu(keys - queries)
    allowed = (back if causal else every) & seen.to(hidden.device)[:, None, None, :] | itself
    if attention == "sdpa":
        return allowed
    return torch.where(allowed, 0.0, torch.finfo(hidden.dtype).min).to(hidden.dtype)
