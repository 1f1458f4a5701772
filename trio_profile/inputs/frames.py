"""Read the frames of a video: a file, by PyAV, or a folder of pictures."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.questions import open_picture, picture_files
from trio_profile.optional import require
from trio_profile.reading import open_regular
from trio_profile.records.study import MOST_FRAMES
from trio_profile.text import first_line

FRAMES = 8
"""The number of frames without an option: as many as `pocket-video` takes."""
_FORMATS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,gif"
"""The containers that are read. A playlist would open other files."""


class Frames(list[Image.Image]):
    """Frames of a video, as RGB.

    metadata: where they stood in the file and its rate, as processors take it. None where they have no times.
    """

    metadata: dict[str, Any] | None = None


def require_video(path: str) -> None:
    """Raise StudyError if there is no such file or folder, or if a file needs the extra `video`. Nothing is read."""
    try:
        is_there = Path(path).exists()
    except (OSError, ValueError) as error:
        raise StudyError(f"video {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not is_there:
        raise StudyError(f"video {path!r} does not exist; name a video file, or a folder of pictures")
    if not Path(path).is_dir():
        require("a video file", "video", ["av"])


def read_video(path: str, frames: int | None = None, fps: float | None = None) -> Frames:
    """Frames of a video file, upright, or of a folder of pictures in the order of their names.

    frames: how many, evenly chosen. None without fps: FRAMES, or all if there are fewer.
    fps: a file's first frame at or after each step of 1 / fps seconds. A file with fewer frames a second gives fewer.
    Raises StudyError if nothing can be read, if there are too few frames or more than MOST_FRAMES, if frames have no
    times for fps, or if their sizes differ.
    """
    require_video(path)
    if not Path(path).is_dir():
        return _read_file(path, frames, fps)
    if fps is not None:
        raise StudyError(f"fps = {fps:g}: the pictures of folder {path!r} have no times; give --frames N")
    files = picture_files(Path(path), "video")
    pictures = Frames(open_picture(files[number]) for number in _evenly(len(files), frames, path))
    if len(sizes := {picture.size for picture in pictures}) > 1:
        some = " and ".join(f"{width} × {height}" for width, height in sorted(sizes)[:2])
        raise StudyError(f"video {path!r}: its pictures have different sizes, such as {some}; give them one size")
    return pictures


def _read_file(path: str, frames: int | None, fps: float | None) -> Frames:
    with _decoding(path) as decoded:
        times = [frame.time for frame in decoded]
    even = _evenly(len(times), frames, path)
    numbers = set(even if fps is None else _regularly(times, fps, path))
    with _decoding(path) as decoded:
        read = Frames(_upright(frame) for number, frame in enumerate(decoded) if number in numbers)
    if rate := _rate(times):
        read.metadata = {"total_num_frames": len(times), "fps": rate, "frames_indices": sorted(numbers)}
    return read


@contextmanager
def _decoding(path: str) -> Iterator[Iterator[Any]]:
    """The frames of a video file in their order. Raises StudyError if it is none."""
    av: Any = import_module("av")

    try:
        with (
            open_regular(Path(path)) as file,
            av.open(file, options={"format_whitelist": _FORMATS}) as container,
        ):
            if not container.streams.video:
                raise StudyError(f"{path!r} has no pictures, only sound or text; name a video")
            yield container.decode(video=0)
    except (av.FFmpegError, OSError) as error:
        why = error.strerror or first_line(error)
        raise StudyError(f"{path!r} cannot be read as a video ({why}); the formats are {_FORMATS}") from error


def _upright(frame: Any) -> Image.Image:
    """A decoded frame, turned as the file says that it is shown."""
    return frame.to_image().rotate(frame.rotation, expand=True)


def _rate(times: list[float | None]) -> float | None:
    """Frames a second, from the first to the last one. None if that is not known."""
    first, last = times[0], times[-1]
    return (len(times) - 1) / (last - first) if first is not None and last is not None and last > first else None


def _evenly(count: int, frames: int | None, path: str) -> list[int]:
    """The numbers of evenly chosen frames: the middle of each of `frames` equal parts."""
    frames = min(FRAMES, count) if frames is None else frames
    if not count:
        raise StudyError(f"video {path!r} has no frames; name another one")
    if frames > count:
        raise StudyError(f"frames = {frames}: video {path!r} has only {count}; give --frames {count} or less")
    return [(2 * part + 1) * count // (2 * frames) for part in range(frames)]


def _regularly(times: list[float | None], fps: float, path: str) -> list[int]:
    """For each step of 1 / fps seconds the number of the first frame at or after it."""
    known = [time for time in times if time is not None]
    if len(known) < len(times) or known != sorted(known):
        raise StudyError(f"fps = {fps:g}: video {path!r} has frames without a time, or out of order; give --frames N")
    count = int((known[-1] - known[0]) * fps) + 1
    if count > MOST_FRAMES:
        raise StudyError(
            f"fps = {fps:g}: that is {count} frames of video {path!r}; give --fps {fps / 2:g}, or --frames"
        )
    return [min(bisect_left(known, known[0] + step / fps), len(known) - 1) for step in range(count)]
