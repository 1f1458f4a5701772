"""Refuse to continue a study that is another one: other settings, another kind of machine, other files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trio_profile.errors import StoreError
from trio_profile.records.schema import Environment, FileDigest, Session

OTHER_OUT = "choose another --out"
"""The way out of most differences."""
ONE_KIND = "all hosts of a study are of one kind: leave the others out"
"""The way out for hosts that differ."""
_GROUPS = {
    "questions": "the questions {questions} have",
    "match": "the file of {study.match} has",
    "model": "the checkpoint {study.model} has",
    "image": "the picture {study.image} has",
    "video": "the video {study.video} has",
    "tasks": "the tasks in {study.task_path} have",
}
"""The groups of files that are measured, with the words for each."""


def require_same(noun: str, stored: dict, wanted: dict, directory: Path, way_out: str = OTHER_OUT) -> None:
    """Raise StoreError if a directory holds something else than is wanted now. The message names the fields.

    noun: `study` or `environment`.
    """
    names = [name for name, value in wanted.items() if stored.get(name) != value]
    if names == ["match"]:
        way_out = f"give --match {stored['match']}, or {OTHER_OUT}"
    differences = "; ".join(f"{name} ({stored.get(name)!r} there, {wanted[name]!r} here)" for name in names)
    if differences:
        raise StoreError(f"{directory} holds another {noun}: {differences}; {way_out}")


def require_same_environment(
    sessions: Sequence[Session], now: Environment, directory: Path, way_out: str = OTHER_OUT
) -> None:
    """Raise StoreError if a session ran on another kind of machine."""
    for session in sessions:
        require_same("environment", session.environment.identity, now.identity, directory, way_out)


def require_same_inputs(
    study: Any, sessions: Sequence[Session], digests: Mapping[str, FileDigest], directory: Path
) -> None:
    """Raise StoreError if a file that was measured has changed since. The message names the file.

    A group of files (such as the checkpoint) that has no digest there or no digest here is not compared: a
    model of the hub has none before it is downloaded.

    study: a Study, or what a kind of study has in its place.
    digests: of the files as they are now.
    """
    if changed := changed_input(study, sessions, digests, directory):
        raise StoreError(f"{changed}; choose another --out")


def changed_input(
    study: Any, sessions: Sequence[Session], digests: Mapping[str, FileDigest], directory: Path
) -> str | None:
    """Return which file has changed since the sessions, in one clause; None if none has, or if a digest is missing.

    digests: of the files that are compared with those of the sessions.
    directory: of the sessions.
    """
    for group, words in _GROUPS.items():
        now = _of_group(digests, group)
        before = next((files for session in sessions if (files := _of_group(session.inputs, group))), {})
        if now and before and now != before:
            changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            files = ", ".join(_file(name, study) for name in changed)
            measured = words.format(study=study, questions=", ".join(study.question_files))
            return f"{measured} changed since {directory} was measured ({files})"
    return None


def _of_group(digests: Mapping[str, FileDigest], group: str) -> dict[str, FileDigest]:
    return {name: digest for name, digest in digests.items() if name.partition("/")[0] == group}


def _file(name: str, study: Any) -> str:
    """Return the name of a file for people. name: as in `Session.inputs`."""
    group, _, file = name.partition("/")
    return file or Path(str(getattr(study, group))).name
