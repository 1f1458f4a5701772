"""Questions about pictures, with answers where they are known: what says whether a pruned model still answers.

A file of them is JSON Lines, one question a line, its picture beside the file:

    {"image": "kitchen.png", "question": "What is on the table?", "answer": "a cup", "kind": "what"}
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from trio_profile.errors import StudyError

FEWEST = 10
"""An interval of an accuracy needs at least this many questions with answers."""


@dataclass(frozen=True)
class Question:
    """One question.

    picture: draws or reads the picture, as RGB.
    answer: the known answer, if there is one.
    kind: accuracies are also reported by kind, such as "2 hops".
    """

    picture: Callable[[], Image.Image]
    text: str
    answer: str | None = None
    kind: str = ""

    def is_answered_by(self, said: str) -> bool:
        """Whether a text is the answer, or begins with it as a sentence or line of its own.

        Case, spaces and a final full stop do not matter.
        """
        if self.answer is None:
            return False
        answer, sentences = plain(self.answer), plain(re.sub(r"\s*\n\s*", ". ", said.strip()))
        return plain(said) == answer or sentences == answer or sentences.startswith(f"{answer}. ")


def plain(text: str) -> str:
    """Text as answers are compared: lower case, single spaces, no full stop at the end."""
    return " ".join(text.lower().split()).rstrip(".").rstrip()


def open_picture(path: str | Path) -> Image.Image:
    """A picture file as RGB. Raises StudyError if it is missing, no picture, incomplete, or has 32-bit channels."""
    try:
        return _eight_bits(Image.open(Path(path))).convert("RGB")
    except FileNotFoundError as error:
        raise StudyError(f"image {str(path)!r} does not exist") from error
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError, ValueError, SyntaxError) as error:
        raise StudyError(f"image {str(path)!r} is no picture that can be read: {error}") from error


def _eight_bits(picture: Image.Image) -> Image.Image:
    """A grey picture of 16 bits as 8 bits. Pillow's own conversion would clip. Raises ValueError for 32 bits."""
    if picture.mode in ("I", "F"):  # whose range no file says
        raise ValueError("one channel of 32 bits; save it with 8 or 16")
    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    return picture


def read(path: Path) -> list[Question]:
    """The questions of a file. Either all of them have answers, or none has.

    Raises StudyError with the line of a wrong question, or if the file is missing or has too few questions.
    """
    try:
        # `splitlines` would also split at characters that JSON texts may contain.
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise StudyError(f"questions {path} do not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"questions {path} cannot be read: {error}") from error
    by_line = {n: _question(line, f"{path}, line {n}", path.parent) for n, line in enumerate(lines, 1) if line.strip()}
    if not (found := list(by_line.values())):
        raise StudyError(f'questions {path} is empty: write one a line, {{"image": …, "question": …, "answer": …}}')
    unanswered = [n for n, question in by_line.items() if question.answer is None]
    if unanswered and len(unanswered) < len(found):
        raise StudyError(f"questions {path}, line {unanswered[0]}: no answer, and others have one; give all or none")
    enough(len(found), str(path), answered=not unanswered)
    return found


def enough(count: int, where: str, *, answered: bool) -> None:
    """Raise StudyError if there are too few answers for an interval of their accuracy."""
    if answered and count < FEWEST:
        raise StudyError(f"{where}: {count} questions with answers; an interval needs at least {FEWEST}")


def digest(questions: Iterable[Question]) -> str:
    """A hash of the questions, their answers and the pixels of their pictures."""
    found = sha256()
    for question in questions:
        picture = question.picture()
        found.update(repr((question.text, question.answer, question.kind, picture.size)).encode())
        found.update(picture.tobytes())
    return found.hexdigest()[:16]


def _question(line: str, where: str, directory: Path) -> Question:
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise StudyError(f"{where} is not JSON: {error}") from error
    if not isinstance(fields, dict) or set(fields) - {"image", "question", "answer", "kind"}:
        raise StudyError(f"{where}: a question has the fields image, question, answer and kind, and no others")
    for name in ("image", "question"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise StudyError(f"{where}: {name} = {fields.get(name)!r} must be a text that is not empty")
    for name in ("answer", "kind"):
        if fields.get(name) is not None and not (isinstance(fields[name], str) and fields[name].strip()):
            raise StudyError(f"{where}: {name} = {fields[name]!r} must be a text that is not empty, or be left out")
    image = directory / fields["image"]
    try:
        open_picture(image)
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from error
    return Question(partial(open_picture, image), fields["question"], fields.get("answer"), fields.get("kind") or "")
