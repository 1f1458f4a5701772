"""Digests of the files that a study measures: the checkpoint, the picture, the questions, the tasks.

If one of them is exchanged, the study in a directory is another one, although its paths are the same. This module
itself does not import torch.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from trio_profile.inputs.matching import file_of
from trio_profile.inputs.questions import SUFFIXES, is_transparent
from trio_profile.inputs.trained import TRAINED
from trio_profile.reading import open_regular, parse_json, read_bytes
from trio_profile.records.facts import models
from trio_profile.records.files import WRITTEN
from trio_profile.records.schema import FileDigest
from trio_profile.records.study import Study

BLOCK = 64 * 1024
BLOCKS = 256
"""A file of more than BLOCK · BLOCKS bytes (16 MiB) is hashed in this many blocks, evenly spaced over the file. Reading
all weights would take minutes. Training changes nearly every weight, so the blocks show it."""
_OF_A_CHECKPOINT = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".safetensors", ".bin", ".pt", ".pth"}
"""Suffixes of the files that say what a checkpoint does: configuration, tokenizer, processor, code and weights."""


def input_digests(study: Study) -> dict[str, FileDigest]:
    """Return the digest of each file that a study measures, by name.

    The names are `model/FILE` for each file of the checkpoint, `image`, `video` or `video/FILE`, `questions`,
    `questions/pictures` for all pictures and videos that the questions name, `match` for the file of a function that
    judges answers, and `tasks/FILE`. Of several files of questions they are `questions/FILE` and `questions/pictures of
    FILE`. What is missing or cannot be read has no digest: loading it says why. A model of the hub has digests once it
    is downloaded.
    """
    digests: dict[str, FileDigest] = {}
    if (checkpoint := _checkpoint(study.model)) is not None:
        digests |= _of_directory("model", checkpoint, _OF_A_CHECKPOINT)
    if study.task_path is not None:
        digests |= _of_path("tasks", Path(study.task_path))
    for group, path in (("image", study.image), ("video", study.video)):
        if path is not None:
            digests |= _of_medium(group, Path(path), is_video=group == "video")
    for file in map(Path, study.question_files):
        names = ("questions", "questions/pictures")
        if len(study.question_files) > 1:
            names = (f"questions/{file.name}", f"questions/pictures of {file.name}")
        digests |= of_questions(file, *names)
    return digests | of_match(study.match)


def of_match(match: str) -> dict[str, FileDigest]:
    """Return the digest of the file of a function that judges answers, as `match`; empty for a rule of ours."""
    file = file_of(match)
    digest = None if file is None else of_file(file)
    return {} if digest is None else {"match": digest}


def _of_path(group: str, path: Path) -> dict[str, FileDigest]:
    """Return the digest of a file, or of each file in a directory."""
    digest = of_file(path)
    return _of_directory(group, path) if digest is None else {group: digest}


def _of_medium(name: str, path: Path, *, is_video: bool) -> dict[str, FileDigest]:
    """Return the digest of a picture or a video, and of each file of a video that is a directory of pictures.

    That of a picture says whether it is transparent.
    """
    digests = _of_path(name, path)
    for place, digest in digests.items():
        file = path / place.removeprefix(name).lstrip("/")
        is_picture = not is_video or (file != path and file.suffix.lower() in SUFFIXES)
        if is_picture and is_transparent(file):
            digests[place] = digest.model_copy(update={"transparent": 1})
    return digests


def of_file(path: Path) -> FileDigest | None:
    """Return the digest of a file; None if it is missing, cannot be read, or is no regular file."""
    sha = sha256()
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            for start in _starts(size):
                file.seek(start)
                sha.update(file.read(BLOCK))
    except OSError:
        return None
    return FileDigest(bytes=size, sha256=sha.hexdigest()[:16])


def _starts(size: int) -> Iterator[int]:
    """Yield the offset of each hashed block: every block of a small file, BLOCKS blocks of a large one."""
    if size <= BLOCK * BLOCKS:
        yield from range(0, size, BLOCK)
    else:
        for number in range(BLOCKS):
            yield number * (size - BLOCK) // (BLOCKS - 1)


def _checkpoint(model: str) -> Path | None:
    """Return the directory of a model's files; None if it has none on this machine."""
    if model in models():
        return TRAINED.get(model)
    try:
        if Path(model).is_dir():
            return Path(model)
    except (OSError, ValueError):
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model, "config.json")
    except (HFValidationError, OSError):
        return None
    return Path(config).parent if isinstance(config, str) else None


def _of_directory(group: str, directory: Path, suffixes: Iterable[str] = ()) -> dict[str, FileDigest]:
    """Return the digest of each file in a directory and below it, by `GROUP/FILE`.

    Files that a study writes do not count, nor what has a name with a full stop first.

    suffixes: of the files that count; empty for all.
    """
    try:
        paths = sorted(directory.rglob("*"))
    except (OSError, ValueError):
        return {}
    digests: dict[str, FileDigest | None] = {}
    for path in paths:
        name = path.relative_to(directory)
        is_ours = path.name in WRITTEN or any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if not is_ours and (not suffixes or path.suffix in suffixes):
            digests[name.as_posix()] = of_file(path)
    return {f"{group}/{name}": digest for name, digest in digests.items() if digest is not None}


def of_questions(path: Path, name: str = "questions", pictures: str = "questions/pictures") -> dict[str, FileDigest]:
    """Return the digest of a file of questions, and one of all pictures that it names, under these two names."""
    questions = of_file(path)
    if questions is None:
        return {}
    try:
        lines = read_bytes(path).splitlines()
    except OSError:
        return {}
    total, transparent, hashes = 0, 0, sha256()
    for medium, is_video in dict.fromkeys(filter(None, map(_medium, lines))):
        for place, picture in _of_medium(medium, path.parent / medium, is_video=is_video).items():
            total += picture.bytes
            transparent += picture.transparent or 0
            hashes.update(f"{place} {picture.sha256}\n".encode("utf-8", "surrogatepass"))
    return {
        name: questions,
        pictures: FileDigest(bytes=total, sha256=hashes.hexdigest()[:16], transparent=transparent or None),
    }


def _medium(line: bytes) -> tuple[str, bool] | None:
    """Return the picture or video that a line names, and whether it is a video.

    None if the line is no question. Reading the questions says why.
    """
    try:
        fields = parse_json(line)
    except ValueError:
        return None
    name = fields.get("image") or fields.get("video") if isinstance(fields, dict) else None
    return (name, not fields.get("image")) if isinstance(name, str) else None
