"""Read the frames of a video: a file, by PyAV, or a folder of pictures."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.questions import open_picture
from trio_profile.optional import require
from trio_profile.reading import open_regular
from trio_profile.text import first_line

FRAMES = 8
"""The number of frames without an option: as many as `pocket-video` takes."""
_FORMATS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,gif"
"""The containers that are read. A playlist would open other files."""


def require_video(path: str) -> None:
    """Raise StudyError if there is no such file or folder, or if a file needs the extra `video`. Nothing is read."""
    if not Path(path).exists():
        raise StudyError(f"video {path!r} does not exist")
    if not Path(path).is_dir():
        require("--video FILE", "video", ["av"])


def read_video(path: str, frames: int | None = None, fps: float | None = None) -> list[Image.Image]:
    """Frames of a video file, or of a folder of pictures in the order of their names, as RGB.

    frames: how many, evenly chosen. None without fps: FRAMES, or all if there are fewer.
    fps: how many a second. Only for a file.
    Raises StudyError if nothing can be read, if there are too few frames, or if their sizes differ.
    """
    require_video(path)
    if not Path(path).is_dir():
        return _read_file(path, frames, fps)
    if fps is not None:
        raise StudyError(f"fps = {fps}: the pictures of folder {path!r} have no times; give --frames N")
    files = sorted(file for file in Path(path).iterdir() if file.is_file() and not file.name.startswith("."))
    pictures = [open_picture(files[number]) for number in _evenly(len(files), frames, path)]
    if len({picture.size for picture in pictures}) > 1:
        raise StudyError(f"video {path!r}: its pictures have different sizes; give them one size")
    return pictures


def _read_file(path: str, frames: int | None, fps: float | None) -> list[Image.Image]:
    with _decoding(path) as decoded:
        times = [float(frame.time or 0) for frame in decoded]
    even = _evenly(len(times), frames, path)
    numbers = set(even if fps is None else _regularly(times, fps))
    with _decoding(path) as decoded:
        return [frame.to_image() for number, frame in enumerate(decoded) if number in numbers]


@contextmanager
def _decoding(path: str) -> Iterator[Iterable[Any]]:
    """The frames of a video file in their order. Raises StudyError if it is none."""
    av: Any = import_module("av")

    try:
        with (
            open_regular(Path(path)) as file,
            av.open(file, options={"format_whitelist": _FORMATS}) as container,
        ):
            yield container.decode(video=0)
    except IndexError as error:
        raise StudyError(f"video {path!r} has no frames") from error
    except (av.FFmpegError, OSError) as error:
        raise StudyError(
            f"video {path!r} is no video that can be read: {error.strerror or first_line(error)}"
        ) from error


def _evenly(count: int, frames: int | None, path: str) -> list[int]:
    """The numbers of evenly chosen frames: the middle of each of `frames` equal parts."""
    frames = min(FRAMES, count) if frames is None else frames
    if not count:
        raise StudyError(f"video {path!r} has no frames")
    if frames > count:
        raise StudyError(f"frames = {frames}: video {path!r} has {count}; give fewer --frames")
    return [(2 * part + 1) * count // (2 * frames) for part in range(frames)]


def _regularly(times: list[float], fps: float) -> list[int]:
    """The numbers of the first frames of each 1/fps seconds."""
    steps = range(int((times[-1] - times[0]) * fps) + 1)
    return [min(bisect_left(times, times[0] + step / fps), len(times) - 1) for step in steps]
