"""Read the frames of a video: a file, by PyAV, or a folder of pictures."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from math import lcm, prod
from pathlib import Path
from typing import Any

from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.containers import is_cut_off
from trio_profile.inputs.questions import open_picture, picture_files, size_of
from trio_profile.optional import require
from trio_profile.reading import open_regular
from trio_profile.records.study import MOST_ASPECT, MOST_FRAMES, MOST_PIXELS, MOST_VIDEO_PIXELS
from trio_profile.text import first_line

FRAMES = 8
"""The number of frames without an option: as many as `pocket-video` takes."""
_FORMATS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,gif"
"""The containers that are read. A playlist would open other files."""
_LAST = 8
"""A decoder marks a frame whose data are incomplete. Is one of so many frames at the end, the end is missing."""


class Frames(list[Image.Image]):
    """Frames of a video, as RGB.

    metadata: when they are shown, as processors take it. None where they have no times.
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
    Raises StudyError if nothing can be read, if the file was cut off, if there are too few frames or more than
    MOST_FRAMES, if one has more than MOST_PIXELS or all have more than MOST_VIDEO_PIXELS, if frames have no times for
    fps, or if their sizes differ.
    """
    require_video(path)
    if not Path(path).is_dir():
        return _read_file(path, frames, fps)
    if fps is not None:
        raise StudyError(f"fps = {fps:g}: the pictures of folder {path!r} have no times; give --frames N")
    files = picture_files(Path(path), "video")
    numbers = _evenly(len(files), frames, path)
    with open_regular(files[0]) as first:
        _require_pixels(path, size_of(first, f"image {str(files[0])!r}"), len(numbers))
    return _of_one_size(path, Frames(open_picture(files[number]) for number in numbers))


def _of_one_size(path: str, frames: Frames) -> Frames:
    """Return the frames. Raises StudyError if their sizes differ."""
    if len(sizes := {frame.size for frame in frames}) > 1:
        some = " and ".join(f"{width} × {height}" for width, height in sorted(sizes)[:2])
        raise StudyError(f"video {path!r}: its frames have different sizes, such as {some}; give them one size")
    return frames


def _read_file(path: str, frames: int | None, fps: float | None) -> Frames:
    times, corrupt, size = list[Fraction | None](), list[bool](), (0, 0)
    with _decoding(path) as decoded:
        for frame in decoded:
            times.append(None if frame.pts is None else frame.pts * frame.time_base)
            corrupt.append(frame.is_corrupt)
            size = max(size, (frame.width, frame.height), key=prod)
    if any(corrupt[-_LAST:]):
        raise _cut_off(path)
    numbers = set(_evenly(len(times), frames, path) if fps is None else _regularly(times, fps, path))
    _require_pixels(path, size, len(numbers))
    with _decoding(path) as decoded:
        read = Frames(_upright(frame) for number, frame in enumerate(decoded) if number in numbers)
    read.metadata = _metadata(times, sorted(numbers))
    return _of_one_size(path, read)


@contextmanager
def _decoding(path: str) -> Iterator[Iterator[Any]]:
    """The frames of a video file in their order. Raises StudyError if it is none, or was cut off."""
    av: Any = import_module("av")

    try:
        with open_regular(Path(path)) as file:
            if is_cut_off(file):
                raise _cut_off(path)
            # A decoder refuses a larger frame before it takes memory for it. Metadata in any encoding are not used.
            options = {"format_whitelist": _FORMATS, "max_pixels": str(MOST_PIXELS)}
            with av.open(file, options=options, metadata_errors="replace") as container:
                if not container.streams.video:
                    raise StudyError(f"{path!r} has no pictures, only sound or text; name a video")
                stream = container.streams.video[0]
                if not stream.width * stream.height:
                    raise StudyError(f"video {path!r} has no frames, or frames of more than {MOST_PIXELS} pixels")
                yield container.decode(stream)
    except (av.FFmpegError, OSError) as error:
        why = error.strerror or first_line(error)
        raise StudyError(f"{path!r} cannot be read as a video ({why}); the formats are {_FORMATS}") from error


def _cut_off(path: str) -> StudyError:
    return StudyError(f"video {path!r} is cut off: its end is missing or damaged; copy it again, or name another one")


def _require_pixels(path: str, size: tuple[int, int], count: int) -> None:
    """Raise StudyError if so many frames of a size are too much for memory, or if one has the shape of no picture."""
    width, height = size
    if width * height * count > MOST_VIDEO_PIXELS:
        raise StudyError(
            f"video {path!r}: {count} frames of {width} × {height} pixels; at most {MOST_VIDEO_PIXELS} pixels are "
            "read; give fewer --frames, or a smaller video"
        )
    if max(size) > MOST_ASPECT * min(size):
        raise StudyError(
            f"video {path!r}: {width} × {height} pixels; one side can be {MOST_ASPECT} times as long as the other"
        )


def _upright(frame: Any) -> Image.Image:
    """A decoded frame, turned as the file says that it is shown."""
    return frame.to_image().rotate(frame.rotation, expand=True)


def _metadata(times: Sequence[Fraction | None], numbers: Sequence[int]) -> dict[str, Any] | None:
    """The metadata from which processors compute when the chosen frames are shown, from the first frame on.

    Processors divide the index of a frame by a rate. So the indices are ticks of a clock that has all these times, not
    numbers of frames: the rate of a video may vary. None if the times are not known, or in no order.

    numbers: of the chosen frames.
    """
    known = [time for time in times if time is not None]
    if len(known) < len(times) or known != sorted(known) or known[0] == known[-1]:
        return None
    length = (known[-1] - known[0]) * Fraction(len(known), len(known) - 1)
    ticks = lcm(*(time.denominator for time in known))
    return {
        "total_num_frames": round(length * ticks),
        "fps": float(ticks),
        "duration": float(length),
        "frames_indices": [int((known[number] - known[0]) * ticks) for number in numbers],
    }


def _evenly(count: int, frames: int | None, path: str) -> list[int]:
    """The numbers of evenly chosen frames: the middle of each of `frames` equal parts."""
    frames = min(FRAMES, count) if frames is None else frames
    if not count:
        raise StudyError(f"video {path!r} has no frames; name another one")
    if frames > count:
        raise StudyError(f"frames = {frames}: video {path!r} has only {count}; give --frames {count} or less")
    return [(2 * part + 1) * count // (2 * frames) for part in range(frames)]


def _regularly(times: Sequence[Fraction | None], fps: float, path: str) -> list[int]:
    """For each step of 1 / fps seconds the number of the first frame at or after it."""
    known = [time for time in times if time is not None]
    if len(known) < len(times) or known != sorted(known):
        raise StudyError(f"fps = {fps:g}: video {path!r} has frames without a time, or out of order; give --frames N")
    rate = Fraction(repr(fps))  # exact: rounding could miss a frame that stands at a step
    count = int((known[-1] - known[0]) * rate) + 1
    if count > MOST_FRAMES:
        raise StudyError(
            f"fps = {fps:g}: that is {count} frames of video {path!r}; give --fps {fps / 2:g}, or --frames"
        )
    return [min(bisect_left(known, known[0] + step / rate), len(known) - 1) for step in range(count)]
