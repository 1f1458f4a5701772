"""Qwen's vision tower on a part of its patches: those that a method keeps by their pixels, before the tower runs.

Hooks drop the other patches before the first block, and cut each block's sequences and rotations to the patches left.
Behind each merger the rows go back to their places, with zeros between them: the model's forward wants a feature for
each placeholder. The engine drops the zeros before the first layer of the decoder.
"""

from itertools import accumulate, pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trio_core.errors import UnsupportedInput
from trio_core.models.encoder import KeepPixels, Kept, Tower
from trio_core.models.qwen_tower import window_order
from trio_core.spans import span
from trio_core.tensors import to_device

_OTHERS = (
    "the vision tower ran on other pictures than those of the prompt, or on none: in the context call the model or "
    "generate() with input_ids and pixel_values by their names"
)


class ThinTower(Tower):
    """A tower for pictures of any size that runs on a part of its patches. 2 × 2 of them become one visual token.

    visual: the tower's module.
    keep: the method's rule.
    """

    def __init__(self, visual: nn.Module, keep: KeepPixels):
        super().__init__()
        self.visual = cast(Any, visual)
        self.keep = keep
        self.budgets: tuple[tuple[int, int], ...] = ()

    def expect(self, budgets: tuple[tuple[int, int], ...]) -> None:
        """Take the visual tokens and the budget of each sample whose pictures will go through the tower."""
        self.budgets = budgets

    def listen(self) -> list[Any]:
        """Choose before the tower, thin it out at its blocks, and spread the output of each merger."""
        eager = torch.compiler.disable
        blocks, mergers = self.visual.blocks, [self.visual.merger, *getattr(self.visual, "deepstack_merger_list", ())]
        return [
            self.visual.register_forward_pre_hook(eager(self._choose), with_kwargs=True),
            blocks[0].register_forward_pre_hook(eager(self._drop)),
            *(block.register_forward_pre_hook(eager(self._cut), with_kwargs=True) for block in blocks),
            *(merger.register_forward_hook(eager(self._spread)) for merger in mergers),
        ]

    def collect(self, visual_tokens: list[int]) -> tuple[Kept, ...]:
        """What is kept of each sample of the batch. The record is empty afterwards. visual_tokens: as in `Tower`.

        Raises UnsupportedInput where other pictures than those of the prompt went through the tower, or none.
        """
        kept: tuple[Kept, ...] = self.recorded.get("kept", ())
        if [len(scores) for _, scores in kept] != visual_tokens[:: self.copies]:
            raise UnsupportedInput(_OTHERS)
        kept = tuple(one for one in kept for _ in range(self.copies))
        self.forget()
        return kept

    def forget(self) -> None:
        """Empty the record, and what is expected."""
        super().forget()
        self.budgets = ()

    def _choose(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the method choose for each sample, and note which rows of the tower stay."""
        pixels = args[0] if args else kwargs["hidden_states"]
        grids = (kwargs["grid_thw"] if "grid_thw" in kwargs else args[1]).tolist()
        side = self.visual.spatial_merge_size
        sizes = [(height // side, width // side) for _, height, width in grids]
        counts = [height * width for height, width in sizes]
        parts = zip(pixels.split([count * side**2 for count in counts]), sizes, strict=True)
        pictures, ends = [part.reshape(*size, -1) for part, size in parts], list(accumulate(counts))
        bounds = [0, *accumulate(tokens for tokens, _ in self.budgets)]
        if not {bounds[-1], *bounds[1:]} <= {*ends} or ends[-1] != bounds[-1]:
            raise UnsupportedInput(_OTHERS)
        kept, stays = [], torch.zeros(ends[-1], dtype=torch.bool)
        with span("selection"), torch.no_grad():
            for (start, end), (_, budget) in zip(pairwise(bounds), self.budgets, strict=True):
                own = [picture for picture, stop in zip(pictures, ends, strict=True) if start < stop <= end]
                kept.append(self.keep(own, budget))
                stays[start + kept[-1][0].cpu()] = True
        self.recorded = {"kept": tuple(kept)}
        if not stays.all():
            self.recorded |= _rows(stays[self._order(sizes)], side**2, pixels.device)

    def _order(self, sizes: list[tuple[int, int]]) -> Tensor:
        """[N], the tokens of all pictures in raster order, in the order in which the tower stores them."""
        window = getattr(self.visual, "window_size", None)
        tokens = window and window // self.visual.spatial_merge_size // self.visual.patch_size
        starts = accumulate((height * width for height, width in sizes), initial=0)
        return torch.cat([start + window_order(*size, tokens) for start, size in zip(starts, sizes, strict=False)])

    def _drop(self, _block: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first block's input at the patches that stay."""
        rows = self.recorded.get("patches")
        return None if rows is None else (args[0][rows], *args[1:])

    def _cut(
        self, _block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """A block's keyword arguments for the patches that stay. A sequence is a picture or a window."""
        rows = self.recorded.get("patches")
        if rows is None:
            return None
        cut, ends = dict(kwargs), self.recorded["left_before"][kwargs["cu_seqlens"].long()].unique_consecutive()
        cut["cu_seqlens"] = ends.to(kwargs["cu_seqlens"].dtype)
        cut["position_embeddings"] = tuple(part[rows] for part in kwargs["position_embeddings"])
        if kwargs.get("max_seqlen") is not None:
            cut["max_seqlen"] = int(ends.diff().max())
        return args, cut

    def _spread(self, _merger: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        """A merger's output at the places of all tokens, zero at those that were dropped."""
        if (tokens := self.recorded.get("tokens")) is None:
            return None
        count = (len(self.recorded["left_before"]) - 1) // self.visual.spatial_merge_size**2
        return output.new_zeros(count, *output.shape[1:]).index_copy(0, tokens, output)


def _rows(stays: Tensor, unit: int, device: torch.device) -> dict[str, Tensor]:
    """Where the rows are that stay.

    stays: [N], True at the tokens that stay, in the tower's order, on the host.
    unit: patches of a token.

    Returns `tokens` [K] and `patches` [K · unit], their indices, and `left_before` [N · unit + 1]: before each
    patch, how many stay.
    """
    patches = stays.repeat_interleave(unit)
    rows = {
        "tokens": stays.nonzero().squeeze(1),
        "patches": patches.nonzero().squeeze(1),
        "left_before": F.pad(patches.cumsum(0), (1, 0)),
    }
    return {name: to_device(values, device) for name, values in rows.items()}
