"""The picture of a study: a small copy, how the visual tokens lie on it, and which of them a cell keeps."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from trio_profile.records.record import OneOrMore, Record, ZeroOrMore

if TYPE_CHECKING:
    # Slow to import: functions import it where they need it, and the command line prints its help at once.
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

NO_SCORE = 255
"""The byte of a token without a score."""
NOWHERE = 65535
"""The number that stands for no token. A prompt with as many visual tokens keeps no destinations."""


class TokenGrid(Record):
    """Visual tokens that lie on the whole picture in rows, from the upper left to the lower right.

    The token in row r and column c has the number first + r · (columns + newline) + c.

    name: what the grid is, such as `whole picture`; empty if the picture has one grid.
    first: number of its first token.
    newline: whether a newline token follows each row. It lies on no part of the picture.
    """

    name: str = ""
    rows: OneOrMore
    columns: OneOrMore
    first: ZeroOrMore = 0
    newline: bool = False

    @property
    def tokens(self) -> int:
        """The number of its tokens, with newline tokens."""
        return self.rows * (self.columns + self.newline)


_Address = Annotated[str, Field(max_length=200_000, pattern=r"^(data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+)?$")]


class Picture(Record):
    """The picture whose tokens a study keeps, and its question.

    It is the picture of the study's own input, first sample. If that is random pixels and the study has questions, it
    is the picture of the first question.

    visual_tokens: the number of its visual tokens.
    grids: how they lie on the picture. Empty if this is not known for the model; then cells keep no tokens either.
    image: the part of the picture that the tokens cover, as a `data:` address; at most 448 pixels on the long side.
    frames: the frames of a clip, one for each grid, as `data:` addresses. `image` is then the first of them.
    reason: why there is no image, or no grid.
    prompt: the text that the model reads with the picture. Left out with the image.
    session: id of the session that made it.
    """

    record: Literal["picture"] = "picture"
    visual_tokens: OneOrMore
    grids: tuple[TokenGrid, ...] = ()
    image: _Address = ""
    frames: tuple[_Address, ...] = ()
    reason: str = ""
    prompt: Annotated[str, Field(max_length=2_000)] = ""
    session: str = ""

    @model_validator(mode="after")
    def _require_tokens_of_the_picture(self) -> "Picture":
        for grid in self.grids:
            if grid.first + grid.tokens > self.visual_tokens:
                raise ValueError(f"a grid ends at token {grid.first + grid.tokens} of {self.visual_tokens}")
        return self


class StageTokens(Record):
    """The tokens that stay at one stage. In JSON, bytes are URL-safe base64.

    layer: the stage acts after this decoder layer, counted from 1; 0 is before the first.
    kept: one bit for each visual token, the first token in the highest bit of the first byte.
    scores: one byte for each visual token: 0 is the lowest score, 254 the highest, 255 no score, because the token was
        dropped before. Empty if the method does not score, or if the study keeps no picture.
    low, high: the lowest and the highest score.
    merges: whether other tokens went into the kept ones.
    merged_into: two bytes for each visual token, the lower one first: the number of the kept token that it went into,
        65535 for none. Empty if nothing merged, if the method cannot say it, or if the study keeps no picture.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    layer: ZeroOrMore
    kept: bytes
    scores: bytes = b""
    low: float | None = None
    high: float | None = None
    merges: bool = False
    merged_into: bytes = b""

    @classmethod
    def of(
        cls,
        layer: int,
        visual_tokens: int,
        kept: Sequence[int],
        scores: "ArrayLike | None" = None,
        *,
        merges: bool = False,
        merged_into: "ArrayLike | None" = None,
    ) -> "StageTokens":
        """Return the record of a stage.

        kept: numbers of the kept tokens.
        scores: one for each visual token; not finite for a token without a score. None if the method does not score.
        merged_into: for each visual token the number of the token that it went into, −1 for none. None if not known.
        """
        import numpy as np

        mask = np.zeros(visual_tokens, dtype=bool)
        mask[list(kept)] = True
        packed, low, high = _pack_scores(np.asarray([] if scores is None else scores, dtype=float))
        return cls(
            layer=layer,
            kept=np.packbits(mask).tobytes(),
            scores=packed,
            low=low,
            high=high,
            merges=merges,
            merged_into=b"" if merged_into is None else _pack_numbers(np.asarray(merged_into, dtype=int)),
        )

    def mask(self, visual_tokens: int) -> "NDArray[np.bool_]":
        """Return for each visual token whether it is kept."""
        import numpy as np

        return np.unpackbits(np.frombuffer(self.kept, dtype=np.uint8), count=visual_tokens).astype(bool)

    def destinations(self) -> "NDArray[np.int64] | None":
        """Return for each visual token the number of the token that it went into, −1 for none; None if not known."""
        if not self.merged_into:
            return None
        import numpy as np

        numbers = np.frombuffer(self.merged_into, dtype="<u2").astype(np.int64)
        return np.where(numbers == NOWHERE, -1, numbers)


class KeptTokens(Record):
    """The tokens of the study's picture that stay in one cell, stage by stage.

    visual_tokens: the number of the picture's visual tokens.
    stages: in the order of their layers.
    """

    visual_tokens: OneOrMore
    stages: tuple[StageTokens, ...]

    @model_validator(mode="after")
    def _require_one_value_for_each_token(self) -> "KeptTokens":
        count = self.visual_tokens
        for stage in self.stages:
            lengths = {"kept": ceil(count / 8), "scores": count, "merged_into": 2 * count}
            for name, length in lengths.items():
                size = len(getattr(stage, name))
                if size != length and (size or name == "kept"):
                    raise ValueError(f"{name} has {size} bytes; {count} visual tokens need {length}")
            if bool(stage.scores) and (stage.low is None or stage.high is None):
                raise ValueError("scores need their lowest and highest value")
        return self


def _pack_scores(scores: "NDArray[np.float64]") -> tuple[bytes, float | None, float | None]:
    """Return scores as bytes, the lowest and the highest. Nothing if no score is finite."""
    import numpy as np

    known = np.isfinite(scores)
    if not known.any():
        return b"", None, None
    low, high = float(scores[known].min()), float(scores[known].max())
    steps = np.full(len(scores), NO_SCORE, dtype=np.uint8)
    # Halves first: the difference of two large floats can be infinite.
    span = (high / 2 - low / 2) or 1.0
    steps[known] = np.rint((NO_SCORE - 1) * ((scores[known] / 2 - low / 2) / span)).astype(np.uint8)
    return steps.tobytes(), low, high


def _pack_numbers(numbers: "NDArray[np.int64]") -> bytes:
    """Return numbers as two bytes each. Nothing if there are too many tokens for two bytes."""
    import numpy as np

    if len(numbers) >= NOWHERE:
        return b""
    return np.where(numbers < 0, NOWHERE, numbers).astype("<u2").tobytes()
