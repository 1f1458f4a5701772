"""Questions about pictures and videos, with answers where they are known: whether a pruned model still answers.

A file of them is JSON Lines, one question a line, its picture or video beside the file:

    {"image": "kitchen.png", "question": "What is on the table?", "answer": "a cup", "kind": "what"}
    {"video": "cat.mp4", "question": "What jumps?", "answer": "a cat"}
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any

from PIL import ExifTags, Image, ImageChops, ImageOps, UnidentifiedImageError

from trio_profile.errors import StudyError
from trio_profile.inputs.matching import RULES, Rule, rule_of
from trio_profile.reading import open_regular, parse_json, read_text
from trio_profile.records.study import MOST_ASPECT, MOST_PIXELS, USUAL_MATCH
from trio_profile.text import first_line

FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM")
"""The formats of pictures that are read. Others, such as PostScript, would run a program or a rarely used reader."""
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff"}
"""Of the files of pictures in a directory."""
_NUMBER = re.compile(r"(\d+)")
ReadVideo = Callable[[str], Any]
"""Returns the frames of a video. `frames.read_video` is one."""
FEWEST = 10
"""An interval of an accuracy needs at least this many questions with answers."""


@dataclass(frozen=True)
class Question:
    """One question.

    picture: draws or reads the picture, an RGB image, or the video, a list of such images.
    answer: the known answer, if there is one.
    kind: accuracies are also reported by kind, such as "2 hops".
    source: names the picture, or the scene if the file names one. Questions with one source count as questions about
        one picture. Empty if no other question has this picture.
    benchmark: the name of the question's file, if the study has several files; otherwise empty.
    is_of_video: whether `picture` gives a video.
    rule: says whether an answer is right.
    """

    picture: Callable[[], Any]
    text: str
    answer: str | None = None
    kind: str = ""
    source: str = ""
    benchmark: str = ""
    is_of_video: bool = False
    rule: Rule = RULES[USUAL_MATCH]

    def is_answered_by(self, text: str) -> bool:
        """Whether a text is the known answer. Raises StudyError as the rule does."""
        return self.answer is not None and self.rule(text, self.answer)


def judged_by(match: str, questions: Iterable[Question]) -> list[Question]:
    """Return questions with the rule of a study.

    match: its name. The usual rule leaves a question the rule of its own line.
    Raises StudyError as `rule_of` does.
    """
    rule = rule_of(match)
    return [question if match == USUAL_MATCH else replace(question, rule=rule) for question in questions]


def open_picture(path: str | Path) -> Image.Image:
    """A picture file as RGB, upright as its EXIF data say, on white. Of several frames it is the first.

    Raises StudyError if the file is missing, no picture, of another format than FORMATS, incomplete, has more than
    MOST_PIXELS, or has a channel of more than 8 bits.
    """
    name = f"image {str(path)!r}"
    try:
        with open_regular(Path(path)) as file:
            return read_picture(file, name)
    except FileNotFoundError as error:
        raise StudyError(f"{name} does not exist") from error
    except OSError as error:
        raise _unreadable(name, error) from error


def picture_files(directory: Path, name: str) -> list[Path]:
    """The pictures of a directory in the order of their names, where `frame9` comes before `frame10`.

    name: what the directory was given as, for the message.
    Raises StudyError if it has none or cannot be read.
    """
    try:
        files = [path for path in directory.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file()]
    except OSError as error:
        raise StudyError(f"{name} {directory} cannot be read: {error.strerror}; name a directory") from error
    if not files:
        raise StudyError(f"{name} {directory} has no pictures; put JPEG or PNG files there")
    parts = {path: _NUMBER.split(path.name) for path in files}
    return sorted(files, key=lambda path: [int(part) if part.isdecimal() else part for part in parts[path]])


def read_picture(file: IO[bytes], name: str) -> Image.Image:
    """A picture from an open file, as `open_picture` makes it.

    name: of the picture, for the message.
    Raises StudyError as `open_picture` does.
    """
    with _opened(file, name) as picture:
        if _is_read_in_two_ways(picture):
            raise ValueError(
                "Pillow reads an uncompressed TIFF that is turned by its EXIF data in two ways; save a PNG"
            )
        return on_white(ImageOps.exif_transpose(picture))


def _is_read_in_two_ways(picture: Image.Image) -> bool:
    """Whether Pillow mixes up width and height of a picture, but only if it opens it by the name of its file.

    It then maps the file into memory, which it does without compression, and not for RGB [Pillow 13, ImageFile.load].
    """
    turned = picture.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
    return turned and picture.format == "TIFF" and picture.mode != "RGB" and picture.tile[0][0] == "raw"  # pyright: ignore[reportAttributeAccessIssue]


def on_white(picture: Image.Image) -> Image.Image:
    """A picture as RGB. What is transparent lies on white, as a person sees it.

    So do the processors of transformers, if they get a picture as its file holds it
    [image_transforms.convert_to_rgb].
    Raises ValueError if it has a channel of more than 8 bits.
    """
    if picture.mode.startswith(("I", "F")):  # Pillow would clip its values
        raise ValueError("one channel of more than 8 bits; save it with 8")
    if _has_alpha(picture):
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def _has_alpha(picture: Image.Image) -> bool:
    return "A" in picture.getbands() or picture.info.get("transparency") is not None


def is_transparent(path: Path) -> bool:
    """Whether a picture file looks otherwise on white than with its colours alone. False if it cannot be read."""
    try:
        with open_regular(path) as file, _opened(file, str(path)) as picture:
            if not _has_alpha(picture):
                return False
            return ImageChops.difference(picture.convert("RGB"), on_white(picture)).getbbox() is not None
    except (OSError, StudyError):
        return False


def size_of(file: IO[bytes], name: str) -> tuple[int, int]:
    """Return the width and height of a picture in pixels, from its header. The file stands at its beginning afterwards.

    Raises StudyError as `read_picture` does.
    """
    with _opened(file, name) as picture:
        file.seek(0)
        return picture.size


@contextmanager
def _opened(file: IO[bytes], name: str) -> Iterator[Image.Image]:
    """Open a picture, and name it in an error of its reader. A damaged file may fail anywhere, with any error."""
    try:
        with warnings.catch_warnings():
            # Readers warn of odd EXIF data and the like, which do not change the pixels.
            warnings.simplefilter("ignore")
            picture = Image.open(file, formats=FORMATS)
            _require_size(picture)
            yield picture
    except UnidentifiedImageError as error:
        raise StudyError(f"{name} is no picture that can be read; known formats are {', '.join(FORMATS)}") from error
    except Exception as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> StudyError:
    why = getattr(error, "strerror", None) or first_line(error)
    return StudyError(f"{name} is no picture that can be read: {why}")


def _require_size(picture: Image.Image) -> None:
    """Raise ValueError for a picture without pixels or with too many, before its pixels are read."""
    width, height = picture.size
    if not width * height:
        raise ValueError("it has no pixels")
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width} × {height} pixels; at most {MOST_PIXELS} are read")
    if max(width, height) > MOST_ASPECT * min(width, height):  # a processor enlarges the shorter side
        raise ValueError(f"{width} × {height} pixels; one side can be {MOST_ASPECT} times as long as the other at most")


def read(path: Path, read_video: ReadVideo | None = None) -> list[Question]:
    """The questions of a file. Either all of them have answers, or none has.

    read_video: None refuses videos.
    Raises StudyError with the line of a wrong question, or if the file is missing or has too few questions.
    """
    with _readable(path):
        # `splitlines` would also split at characters that JSON texts may contain.
        lines = read_text(path).split("\n")
    readable: set[Path] = set()
    by_line = {
        n: _question(line, f"{path}, line {n}", path.parent, read_video, readable)
        for n, line in enumerate(lines, 1)
        if line.strip()
    }
    if not (questions := list(by_line.values())):
        raise StudyError(f'questions {path} is empty: write one a line, {{"image": …, "question": …, "answer": …}}')
    unanswered = [n for n, question in by_line.items() if question.answer is None]
    if unanswered and len(unanswered) < len(questions):
        raise StudyError(f"questions {path}, line {unanswered[0]}: no answer, and others have one; give all or none")
    enough(len(questions), str(path), answered=not unanswered)
    return questions


def require_file(path: Path) -> None:
    """Raise StudyError if a file of questions is missing or cannot be opened. Its questions are not read."""
    with _readable(path), open_regular(path):
        pass


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the error of a file of questions into a StudyError."""
    try:
        yield
    except FileNotFoundError as error:
        raise StudyError(f"questions {path} do not exist") from error
    except (OSError, ValueError) as error:
        raise StudyError(f"questions {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_several(paths: Sequence[Path], most: int | None, read_video: ReadVideo | None = None) -> list[Question]:
    """The first questions of each file. Each question has the name of its file, without suffix, as its benchmark.

    most: of each file; None for all.
    read_video: None refuses videos.
    Raises StudyError as `read` does, and if two files have one name or a file has less than FEWEST questions.
    """
    by_name: dict[str, Path] = {}
    for path in paths:
        if (other := by_name.setdefault(path.stem, path)) is not path:
            raise StudyError(f"questions {other} and {path} are both called {path.stem!r}: rename one of them")
    all_questions: list[Question] = []
    for name, path in by_name.items():
        questions = read(path, read_video)[:most]
        if len(questions) < FEWEST:
            raise StudyError(
                f"questions {path}: {len(questions)} questions; an interval over them needs at least {FEWEST}"
            )
        all_questions += [replace(question, benchmark=name) for question in questions]
    return all_questions


def enough(count: int, where: str, *, answered: bool) -> None:
    """Raise StudyError if there are too few answers for an interval of their accuracy."""
    if answered and count < FEWEST:
        raise StudyError(f"{where}: {count} questions with answers; an interval needs at least {FEWEST}")


def known_of(questions: Sequence[Question]) -> dict[str, Any]:
    """The kind and the picture of each question, and the share of right answers by chance, as fields of a record."""
    return {
        "kinds": tuple(question.kind for question in questions),
        "pictures": pictures_of(questions),
        "chance": chance_of([(question.kind, question.answer) for question in questions]),
    }


def pictures_of(questions: Sequence[Question]) -> tuple[int, ...]:
    """The number of the picture of each question, from 0, in the order in which the pictures first appear."""
    numbers: dict[str | int, int] = {}
    return tuple(
        numbers.setdefault(question.source or position, len(numbers)) for position, question in enumerate(questions)
    )


def chance_of(known: Sequence[tuple[str, str | None]]) -> float | None:
    """Return the share of right answers of who always gives the most frequent known answer of a question's kind.

    known: the kind and the known answer of each question.
    Returns None if an answer is not known.
    """
    by_kind: dict[str, Counter[str]] = {}
    for kind, answer in known:
        if not answer:
            return None
        by_kind.setdefault(kind, Counter())[answer] += 1
    return sum(max(answers.values()) for answers in by_kind.values()) / len(known) if known else None


def _question(line: str, where: str, directory: Path, read_video: ReadVideo | None, readable: set[Path]) -> Question:
    """The question of a line.

    where: the name of the line, for messages.
    readable: pictures and videos that were read once without an error. That of this line is added.
    """
    try:
        fields: Any = parse_json(line, unique=True)
    except ValueError as error:
        raise StudyError(f"{where} is not JSON: {error}") from error
    if not isinstance(fields, dict) or set(fields) - {"image", "video", "question", "answer", "kind", "scene", "match"}:
        names = "image or video, question, answer, kind, scene and match"
        raise StudyError(f"{where}: a question has the fields {names}, and no others")
    if "image" in fields and "video" in fields:
        raise StudyError(f"{where}: image and video: give one of them")
    medium = "video" if "video" in fields else "image"
    for name in (medium, "question"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise StudyError(f"{where}: {name} = {fields.get(name)!r} must be a text that is not empty")
    for name in ("answer", "kind", "scene"):
        if fields.get(name) is not None and not (isinstance(fields[name], str) and fields[name].strip()):
            raise StudyError(f"{where}: {name} = {fields[name]!r} must be a text that is not empty, or be left out")
    match = USUAL_MATCH if fields.get("match") is None else str(fields["match"])
    if match not in RULES:
        rules = ", ".join(RULES)
        raise StudyError(f"{where}: match = {match!r}: choose {rules}; only --match names a function of yours")
    file = _inside(directory, fields[medium], f"{where}: {medium}")
    reader = open_picture if medium == "image" else read_video
    if reader is None:
        raise StudyError(f"{where}: video {fields[medium]!r}: only pictures are asked about here; give image")
    look = partial(reader, str(file))
    if file not in readable:
        try:
            look()
        except StudyError as error:
            raise StudyError(f"{where}: {error}") from error
        readable.add(file)
    return Question(
        look,
        fields["question"],
        fields.get("answer"),
        fields.get("kind") or "",
        source=f"scene {fields['scene']}" if fields.get("scene") else str(file.resolve()),
        is_of_video=medium == "video",
        rule=RULES[match],
    )


def _inside(directory: Path, name: str, subject: str) -> Path:
    """The path of a picture or video. Raises StudyError if its name leaves the directory; a link in it may leave.

    subject: for the message.
    """
    if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise StudyError(
            f"{subject} {name!r} is outside the folder of the questions; "
            "name a file or a link below that folder, without '..'"
        )
    return directory / name
