"""Qwen's vision tower, which has no CLS token and merges its own patches, as methods see it (`QwenTower`).

`ThinTower` is the tower on a part of its patches: those that a method keeps by their pixels, before the tower runs.
Hooks drop the other patches before the first block, and cut each block's sequences and rotations to the patches left.
Behind each merger the rows go back to their places, with zeros between them: the model's forward wants a feature for
each placeholder. The engine drops the zeros before the first layer of the decoder.

Shapes: S patches of a picture, R rows of them at a time, H heads, E head width.
"""

from copy import copy
from itertools import accumulate, pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trio_core.errors import TrioError, UnsupportedInput
from trio_core.models.encoder import (
    NO_PICTURE,
    ONE_KIND,
    Choice,
    Encoder,
    KeepPixels,
    Tower,
    WatchedTower,
    places_in_grids,
    received_attention,
)
from trio_core.rules.attention import rotate
from trio_core.spans import span
from trio_core.tensors import wide_type


class QwenTower(WatchedTower):
    """A tower for pictures of any size, without a CLS token. It merges 2 × 2 patches into one visual token.

    A patch of its Encoder is a visual token. A crop of its Encoder is a picture or a frame of a video. The attention
    that a patch gets from its whole picture stands in for the CLS token's, as in the methods' public ports to Qwen.
    The tower stores patches window by window. We reorder them to raster order; a known port forgets this and scores
    the wrong tokens.

    visual: the tower's module.
    block: the index of the last block that attends over whole pictures. Keys and attention come from it.
    window: the side of the other blocks' windows in visual tokens; None without windows.
    """

    def __init__(self, visual: nn.Module, block: int, window: int | None):
        super().__init__()
        self.visual = cast(Any, visual)
        self.block = self.visual.blocks[block]
        self.window = window
        self.layout = self._layout()

    def _layout(self) -> dict[str, Any]:
        """The tower's own sizes. `block` and `window` follow from it."""
        names = ("window_size", "patch_size", "spatial_merge_size", "fullatt_block_indexes")
        return {name: copy(getattr(self.visual, name, None)) for name in names}

    def listen(self) -> list[Any]:
        """Record the sizes of the pictures, the block's queries, keys and rotation, and the merger's output."""
        attention = self.block.attn
        return [
            self.visual.register_forward_pre_hook(self._record_grids, with_kwargs=True),
            attention.register_forward_pre_hook(self._record_rotary, with_kwargs=True),
            attention.qkv.register_forward_hook(self.recorder("qkv")),
            self.visual.merger.register_forward_hook(self.recorder("merged")),
        ]

    def _record_grids(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorded["grids"] = kwargs["grid_thw"] if "grid_thw" in kwargs else args[1]

    def _record_rotary(self, _module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        self.recorded["rotary"] = kwargs["position_embeddings"]

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record, in raster order.

        Raises UnsupportedInput where the prompt has more or fewer visual tokens than the tower made. That is so where
        a batch has pictures and videos: the tower runs once for each kind, and we record the latest run. Also where the
        tower's layout changed inside the context.
        """
        for name, value in self._layout().items():
            if value != self.layout[name]:
                raise UnsupportedInput(
                    f"{name} {value} of the vision tower: it was {self.layout[name]} when the context opened; set it "
                    "before prune()"
                )
        side, merged, qkv = self.visual.spatial_merge_size, recorded["merged"], recorded["qkv"]
        frames = [(h // side, w // side) for time, h, w in recorded["grids"].tolist() for _ in range(time)]
        sizes = [height * width for height, width in frames]
        if sum(sizes) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{sum(sizes)} tokens from the latest run of the tower, {sum(visual_tokens)} visual tokens in the "
                f"prompt: {ONE_KIND}"
            )
        grid = max(height for height, _ in frames), max(width for _, width in frames)
        raster = places_in_grids(frames, grid)
        windows = [places[window_order(*frame, self.window)] for places, frame in zip(raster, frames, strict=True)]
        place = torch.cat(windows).to(merged.device)

        def to_raster(values: Tensor) -> Tensor:
            """By visual token in the tower's order → [C, M, …] in raster order, zero outside of a crop."""
            empty = values.new_zeros(len(frames) * grid[0] * grid[1], *values.shape[1:])
            return empty.index_copy(0, place, values).unflatten(0, (len(frames), -1))

        query, key, _ = qkv.unflatten(-1, (3, self.block.attn.num_heads, -1)).unbind(dim=1)

        def attend() -> Tensor:
            wide = wide_type(qkv)
            cos, sin = (part[None].to(wide) for part in recorded["rotary"])
            rotated = (rotate(part[None].to(wide), cos, sin)[0].to(qkv.dtype) for part in (query, key))
            queries, keys = (part.split([size * side**2 for size in sizes]) for part in rotated)
            weights = [received_attention(q, k, self.block.attn.scaling) for q, k in zip(queries, keys, strict=True)]
            return to_raster(torch.cat(weights).unflatten(0, (-1, side**2)).mean(dim=1)).transpose(1, 2)

        return Encoder(
            hidden=to_raster(merged),
            cls=None,
            attend=attend,
            keys=to_raster(key.unflatten(0, (-1, side**2)).mean(dim=1)),
            grid=grid,
            places=torch.cat(raster).to(merged.device).split(visual_tokens),
            project=lambda features: features,
        )


def window_order(height: int, width: int, window: int | None) -> Tensor:
    """[height · width]: the raster index of each visual token of a picture, in the order in which the tower stores it.

    The tower goes through the windows in raster order, and through each window in raster order. Windows at the right
    and lower edge may be smaller.

    window: the side of a window in visual tokens; None for a tower without windows.
    """
    if window is None:
        return torch.arange(height * width)
    window_of_token = torch.arange(height)[:, None] // window * width + torch.arange(width) // window
    return window_of_token.flatten().argsort(stable=True)


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

    def collect(self, visual_tokens: list[int]) -> tuple[Choice, ...]:
        """The choice for each sample of the batch. The record is empty afterwards. visual_tokens: as in `Tower`.

        Raises UnsupportedInput where no picture went through the tower in this forward, or others than the prompt's.
        """
        if not self.recorded:
            raise UnsupportedInput(NO_PICTURE)
        choices: tuple[Choice, ...] = self.recorded["choices"]
        _check_tokens([len(choice.scores) for choice in choices], visual_tokens[:: self.copies])
        repeated = tuple(choice for choice in choices for _ in range(self.copies))
        self.forget()
        return repeated

    def forget(self) -> None:
        """Empty the record and the budgets."""
        super().forget()
        self.budgets = ()

    def _choose(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the method choose for each sample, and note which rows of the tower stay.

        Outside of a prompt the whole tower runs.
        """
        self.recorded = {}
        if not self.budgets:
            return
        pixels = args[0] if args else kwargs["hidden_states"]
        grids = (kwargs["grid_thw"] if "grid_thw" in kwargs else args[1]).tolist()
        if any(frames > 1 for frames, _, _ in grids):
            raise UnsupportedInput("the video in the prompt: methods that choose by pixels are for pictures")
        side = self.visual.spatial_merge_size
        sizes = [(height // side, width // side) for _, height, width in grids]
        counts = [height * width for height, width in sizes]
        parts = zip(pixels.split([count * side**2 for count in counts]), sizes, strict=True)
        pictures, ends = [part.reshape(*size, -1) for part, size in parts], list(accumulate(counts))
        bounds = [0, *accumulate(tokens for tokens, _ in self.budgets)]
        if not {*bounds[1:]} <= {*ends} or bounds[-1] != ends[-1]:
            _check_tokens(counts, [tokens for tokens, _ in self.budgets])
        choices, is_kept = [], torch.zeros(ends[-1], dtype=torch.bool)
        with span("selection"), torch.no_grad():
            for (start, end), (_, budget) in zip(pairwise(bounds), self.budgets, strict=True):
                own = [picture for picture, stop in zip(pictures, ends, strict=True) if start < stop <= end]
                choices.append(self.keep(own, budget))
                is_kept[start:end] = _mask(choices[-1], end - start, budget)
        self.recorded = {"choices": tuple(choices), "is_kept": is_kept[self._order(sizes)]}

    def _order(self, sizes: list[tuple[int, int]]) -> Tensor:
        """[N], the tokens of all pictures in raster order, in the order in which the tower stores them."""
        window = getattr(self.visual, "window_size", None)
        tokens = window and window // self.visual.spatial_merge_size // self.visual.patch_size
        starts = accumulate((height * width for height, width in sizes), initial=0)
        return torch.cat([start + window_order(*size, tokens) for start, size in zip(starts, sizes, strict=False)])

    def _rows(self, unit: int, device: torch.device) -> Tensor | None:
        """The rows that stay, of N · unit, on a device. None where all stay. Computed once a forward."""
        is_kept = self.recorded.get("is_kept")
        if is_kept is None or is_kept.all():
            return None
        key = "rows", unit, device
        if key not in self.recorded:
            self.recorded[key] = is_kept.repeat_interleave(unit).nonzero().squeeze(1).to(device)
        return self.recorded[key]

    def _drop(self, _block: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first block's input at the patches that stay."""
        rows = self._rows(self.visual.spatial_merge_size**2, args[0].device)
        return None if rows is None else (args[0][rows], *args[1:])

    def _cut(
        self, _block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """A block's keyword arguments for the patches that stay. Blocks with the same sequences share them."""
        unit, lengths = self.visual.spatial_merge_size**2, kwargs["cu_seqlens"]
        rows = self._rows(unit, lengths.device)
        if rows is None:
            return None
        key = "cut", id(lengths)
        if key not in self.recorded:
            kept_before = F.pad(self.recorded["is_kept"].repeat_interleave(unit).cumsum(0), (1, 0))
            ends = kept_before[lengths.cpu().long()].unique_consecutive()  # a window may be empty
            cut: dict[str, Any] = {"cu_seqlens": ends.to(lengths)}
            cut["position_embeddings"] = tuple(part[rows.to(part.device)] for part in kwargs["position_embeddings"])
            if kwargs.get("max_seqlen") is not None:
                cut["max_seqlen"] = int(ends.diff().max())
            self.recorded[key] = lengths, cut  # held, so that its id stays its own
        return args, {**kwargs, **self.recorded[key][1]}

    def _spread(self, _merger: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        """A merger's output at the places of all tokens, zero at those that were dropped."""
        rows = self._rows(1, output.device)
        if rows is None:
            return None
        tokens = len(self.recorded["is_kept"])
        return output.new_zeros(tokens, *output.shape[1:]).index_copy(0, rows, output)


def _check_tokens(tower: list[int], prompt: list[int]) -> None:
    """Raise UnsupportedInput unless a tower's visual tokens are those of the prompt, sample by sample."""
    if tower != prompt:
        raise UnsupportedInput(
            f"pictures of {tower} visual tokens went through the vision tower, and the samples of the prompt have "
            f"{prompt}: pass the pixel_values of this prompt"
        )


def _mask(choice: Choice, tokens: int, budget: int) -> Tensor:
    """[N], True at the tokens that stay, on the host. Raises TrioError for a choice that misses the rule's contract."""
    kept = choice.kept.cpu()
    ascends = kept.tolist() == sorted({*kept.tolist()} & {*range(tokens)})
    if len(kept) != budget or len(choice.scores) != tokens or not ascends:
        raise TrioError(
            f"keep_pixels chose {kept.tolist()[:9]} and gave {len(choice.scores)} scores: expected are {budget} of "
            f"{tokens} tokens, ascending, and a score of each token"
        )
    return torch.zeros(tokens, dtype=torch.bool).index_fill(0, kept, True)
