"""A vision tower of which only the order of its tokens is known. That is enough for the control `downsample`."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trio_core.errors import UnsupportedInput, UnsupportedModel
from trio_core.models.encoder import NO_PICTURE, ONE_KIND, Encoder, WatchedTower, places_in_grids
from trio_core.models.layer import Replacement


class Grid(NamedTuple):
    """The visual tokens of one picture, tile or frame: a grid in raster order.

    rows, columns: of the grid.
    before: tokens in front of the grid that are no part of it, such as registers.
    """

    rows: int
    columns: int
    before: int = 0

    @property
    def tokens(self) -> int:
        """The visual tokens of the picture."""
        return self.before + self.rows * self.columns


Grids = Callable[[dict[str, Any], Sequence[int]], list[Grid]]
"""The grids of the pictures of a forward, in the order of their tokens; empty where they have none.

It gets the arguments of `get_image_features` or `get_video_features`, and the tokens of each picture, tile or frame as
far as the model tells them.
"""


class GridTower(WatchedTower):
    """A tower whose tokens form grids. Of attention and keys nothing is known.

    A patch of its Encoder is a visual token as it enters the decoder.

    owner: the module that has `get_image_features`.
    grids: the rule of the family.
    name: of the family.
    """

    def __init__(self, owner: nn.Module, grids: Grids, name: str):
        super().__init__()
        self.owner: Any = owner
        self.grids = grids
        self.name = name

    def listen(self) -> list[Any]:
        """Record what is encoded. The functions that encode cannot have hooks, so they are replaced on the instance."""
        names = (f"get_{kind}_features" for kind in ("image", "video"))
        return [
            Replacement(self.owner, name, self._recording(getattr(self.owner, name)))
            for name in names
            if hasattr(self.owner, name)
        ]

    def _recording(self, encode: Callable[..., Any]) -> Callable[..., Any]:
        """The function `encode` with a record of its arguments and of the tokens that it makes."""
        bound = signature(encode)

        @wraps(encode)  # generate() reads its signature
        def encode_and_record(*args: Any, **kwargs: Any) -> Any:
            made = encode(*args, **kwargs)
            self.recorded["pictures"] = bound.bind(*args, **kwargs).arguments, _counts(made)
            return made

        return encode_and_record

    def take_entering(self, hidden: Tensor, rows: Sequence[Tensor]) -> None:
        """Take the visual tokens of each sample. The arguments are Tower's."""
        self.recorded["entering"] = [hidden[sample, places] for sample, places in enumerate(rows)]

    def make_encoder(self, recorded: dict[str, Any], visual_tokens: list[int]) -> Encoder:
        """An Encoder of the record.

        Raises UnsupportedInput where the pictures' tokens form no grid that we know, and where the prompt has other
        tokens beside them, as those of a video.
        """
        if "pictures" not in recorded:
            raise UnsupportedInput(NO_PICTURE)
        grids = self.grids(*recorded["pictures"])
        if not grids or sum(grid.tokens for grid in grids) != sum(visual_tokens):
            raise UnsupportedInput(
                f"{self.name}: {sum(visual_tokens)} visual tokens in the prompt form no grids that we know "
                f"({', '.join(f'{grid.rows} × {grid.columns}' for grid in grids) or 'none'}): {ONE_KIND}"
            )
        visual = torch.cat(recorded["entering"][:: self.copies])
        largest = max(grid.rows for grid in grids), max(grid.columns for grid in grids)
        inside = places_in_grids([grid[:2] for grid in grids], largest)
        parts = [pad(part, (grid.before, 0), value=-1) for grid, part in zip(grids, inside, strict=True)]
        places = torch.cat(parts).to(visual.device)
        hidden = visual.new_zeros(len(grids) * largest[0] * largest[1], visual.shape[-1])
        hidden = hidden.index_copy(0, places[places >= 0], visual[places >= 0]).unflatten(0, (len(grids), -1))
        return Encoder(
            hidden=hidden,
            cls=None,
            attend=self._unknown,
            keys=hidden.new_empty(*hidden.shape[:2], 0, 0),
            grid=largest,
            places=places.split(visual_tokens),
            project=lambda features: features,
        )

    def _unknown(self) -> NoReturn:
        raise UnsupportedModel(f"{self.name}: of its vision tower only the order of its tokens is known")


def _counts(made: Any) -> list[int]:
    """How many tokens each picture, tile or frame has in what was encoded. Empty where the output does not tell."""
    features = getattr(made, "pooler_output", None)
    if isinstance(features, Tensor) and features.ndim != 3:
        return []
    return [len(part) for part in features] if features is not None else []
