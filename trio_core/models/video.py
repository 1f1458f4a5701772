"""The videos of a forward, read from its arguments: how many frames each has, and how many tokens a frame."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class VideoShape:
    """One video.

    frames: how many frames. Qwen's tower merges two pictures into one frame.
    frame_tokens: visual tokens of a frame.
    extra: visual tokens behind the last frame, such as a newline.
    frame_seconds: the time from one frame to the next, in seconds. None where the arguments do not have it.
    """

    frames: int
    frame_tokens: int
    extra: int = 0
    frame_seconds: float | None = None

    @property
    def tokens(self) -> int:
        """The visual tokens of the video."""
        return self.frames * self.frame_tokens + self.extra


def shapes_by_pixels(pixels: Any, tokens: int, extra: int) -> tuple[VideoShape, ...]:
    """The videos of a family whose frames all have one size. Empty where the tokens do not fit the frames.

    pixels: [videos, frames, 3, height, width].
    tokens: visual tokens of all videos.
    extra: visual tokens behind the last frame of a video.
    """
    if not isinstance(pixels, Tensor) or pixels.ndim != 5:
        return ()
    videos, frames = pixels.shape[:2]
    shape = VideoShape(frames, (tokens // videos - extra) // frames, extra)
    return (shape,) * videos if shape.tokens * videos == tokens else ()


def shapes_by_grids(grids: Any, merged: int, seconds: Iterable[Any] | None) -> tuple[VideoShape, ...]:
    """The videos of a family that passes their grids. The host waits for the grids.

    grids: [videos, 3], frames, rows and columns of patches.
    merged: how many patches become one token.
    seconds: [videos], from one frame to the next. None if unknown.
    """
    if not isinstance(grids, Tensor):
        return ()
    rows: Sequence[Sequence[int]] = grids.tolist()
    spacing = [None] * len(rows) if seconds is None else [float(value) for value in seconds]
    return tuple(
        VideoShape(frames, height * width // merged, frame_seconds=gap)
        for (frames, height, width), gap in zip(rows, spacing, strict=True)
    )
