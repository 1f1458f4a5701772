"""Pictures for requests, no two alike, so that no cache can answer.

Drawn pictures are the pocket model's scenes: each number has its own (inputs/pocket/scenes.py). Pictures of a directory
are used again and again, each time cut out at another place. Every cut-out is the same number of pixels smaller than
its picture. A cut-out that equals an earlier one is left out.
"""

import io
from base64 import b64encode
from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from math import ceil, isqrt
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageChops

from trio_profile.errors import StudyError
from trio_profile.inputs.pocket.grammar import ask
from trio_profile.inputs.pocket.scenes import render, scene
from trio_profile.inputs.questions import open_picture, picture_files

DEFAULT_PROMPT = "Describe the picture."
_QUALITY = 90
_MOST_LOST = 0.125
"""The largest share of a picture's shorter side that may be cut off."""
_SPARE = 1.25
"""Plan 1.25 times as many cut-outs as needed: equal ones are skipped, and an interrupted study needs more."""
_MOST_CHARACTERS = 8_000_000_000
"""Pictures that are ready may have this many characters together, by the size of the last one."""
_SEEDS = 1 << 40
"""Seeds of drawn pictures lie this far apart for two seeds of a study."""


@dataclass(frozen=True)
class Picture:
    """The picture of one request, and the question about it.

    number: of the picture.
    url: the picture, or the frames of a video, as a `data:` address.
    prompt: the question.
    kind: the kind of part of a message that holds it.
    """

    number: int
    url: str
    prompt: str
    kind: Literal["image_url", "video_url"] = "image_url"


class Pictures:
    """Hands out pictures. Each is handed out once.

    directory: where the pictures are; None draws them.
    prompt: the question; None: see `study.EndpointStudy.prompt`.
    seed: of the drawn pictures.
    frames: 1 for pictures, more for videos.
    needed: how many pictures the whole study needs. It decides how much the cut-outs lose.
    first: the first number that is still free.
    next_number: the first number of which no picture was made, prepared ones included.
    Raises StudyError if the directory has no pictures, or too few for so many requests.
    """

    def __init__(
        self,
        directory: Path | None,
        prompt: str | None,
        *,
        seed: int = 0,
        frames: int = 1,
        needed: int = 1,
        first: int = 0,
    ) -> None:
        self._prompt, self._seed, self._frames, self.next_number = prompt, seed, frames, first
        self._ready: deque[Picture] = deque()
        self._known: set[bytes] = set()
        self._files = [] if directory is None else picture_files(directory, "--pictures")
        self._directory = directory
        self._lost = self._cut_off(ceil(_SPARE * needed)) if directory is not None else 0

    def prepare(self, number: int) -> None:
        """Make pictures until so many are ready.

        Raises StudyError if there are not enough, or if they need too much memory.
        """
        while len(self._ready) < number:
            self._ready.append(self._make())
            if len(self._ready) * len(self._ready[-1].url) > _MOST_CHARACTERS:
                raise StudyError(
                    f"{number} pictures of a segment need more than {_MOST_CHARACTERS // 10**9} GB; ask for fewer "
                    "--requests or --seconds, lower loads, or smaller pictures"
                )

    def take(self) -> Picture:
        """Return the next picture. One that was not prepared is made now."""
        return self._ready.popleft() if self._ready else self._make()

    def _make(self) -> Picture:
        """Return a new picture with the next number. Numbers whose picture equals an earlier one are left out."""
        while True:
            number, self.next_number = self.next_number, self.next_number + 1
            image, question = self._drawn(number) if self._directory is None else (self._cut_out(number), "")
            prompt = self._prompt or question or DEFAULT_PROMPT
            picture = as_picture(number, image, prompt, self._frames, form="JPEG")
            digest = sha256(picture.url.encode()).digest()
            if digest not in self._known:
                self._known.add(digest)
                return picture

    def _drawn(self, number: int) -> tuple[Image.Image, str]:
        """Return a drawn picture and a question about it."""
        objects = scene(self._seed * _SEEDS + number)
        return render(objects), ask(objects, 1, np.random.default_rng(number)).text

    def _cut_out(self, number: int) -> Image.Image:
        """Return a part of a picture: each further use begins at another pixel."""
        use, file = divmod(number, len(self._files))
        places = self._lost + 1
        if use >= places**2:
            raise StudyError(f"{self._directory} has too few pictures for another request; add some")
        image = open_picture(self._files[file])
        top, left = divmod(use, places)
        width, height = image.width - self._lost, image.height - self._lost
        return image.crop((left, top, left + width, top + height))

    def _cut_off(self, needed: int) -> int:
        """Return how many pixels every cut-out loses in width and height, so that there are enough of them."""
        lost = isqrt(ceil(needed / len(self._files)) - 1) + 1 if needed > len(self._files) else 0
        shortest = min(min(open_picture(file).size) for file in self._files)
        if lost > _MOST_LOST * shortest:
            most = len(self._files) * (int(_MOST_LOST * shortest) + 1) ** 2
            raise StudyError(
                f"{self._directory} has {len(self._files)} pictures: they give at most {most} different cut-outs, and "
                f"this study may need {needed}; add pictures, or ask for fewer --requests, --rounds or loads"
            )
        return lost


def as_picture(number: int, image: Image.Image, prompt: str, frames: int = 1, form: str = "PNG") -> Picture:
    """Return a picture, or the video of it, as a request shows it. form: of the file of a picture; PNG has no loss."""
    if frames == 1:
        return Picture(number, f"data:image/{form.lower()};base64,{_encoded(image, form)}", prompt)
    moved = (ImageChops.offset(image, pixels, 0) for pixels in range(frames))  # to the right
    video = ",".join(_encoded(frame, "JPEG") for frame in moved)
    return Picture(number, f"data:video/jpeg;base64,{video}", prompt, "video_url")


def _encoded(image: Image.Image, form: str) -> str:
    """Return a picture as a file in base64."""
    file = io.BytesIO()
    image.save(file, form, quality=_QUALITY)
    return b64encode(file.getvalue()).decode()
