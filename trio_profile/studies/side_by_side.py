"""Read several studies, put them side by side, and write their page."""

import os
from collections.abc import Sequence
from pathlib import Path

from trio_profile.analysis.side_by_side import SideBySide, side_by_side
from trio_profile.errors import StudyError
from trio_profile.findings.side_by_side import report
from trio_profile.render import html
from trio_profile.studies import running

COMPARED = ("sweep", "compare")
"""The kinds of study that can stand side by side."""
_LONGEST_NAME = 100


def write(directories: Sequence[Path], out: Path | None = None) -> tuple[SideBySide, list[str]]:
    """Write the page of several studies. Return its document, and a sentence for each record that could not be read.

    out: the file. None: `report-A-B.html` in the working directory, with the names of the studies.
    Raises StoreError if a directory holds no study, or if the file cannot be written or is no page of trio-profile.
    Raises StudyError for a study of a kind that has no cells to compare.
    """
    studies = [running.read(directory) for directory in directories]
    for directory, study in zip(directories, studies, strict=True):
        if study.kind.name not in COMPARED:
            kinds = " and ".join(COMPARED)
            raise StudyError(f"{directory} is a study of kind {study.kind.name!r}; several on a page must be {kinds}")
    names = names_of(directories)
    document = side_by_side(names, [study.document for study in studies])
    joined = "-".join(names).replace("/", "-")[:_LONGEST_NAME]
    path = html.write_page(report(document), Path(f"report-{joined}.html") if out is None else out)
    warnings = [f"{name}: {line}" for name, study in zip(names, studies, strict=True) for line in study.warnings]
    return document.model_copy(update={"report": str(path)}), warnings


def names_of(directories: Sequence[Path]) -> list[str]:
    """A name for each study: its path without what the paths of all begin with.

    Raises StudyError if a directory is named twice.
    """
    paths = [os.path.abspath(directory) for directory in directories]  # noqa: PTH100 - links stay as they are named
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise StudyError(f"{directories[place]} is named twice: name other studies")
    common = os.path.commonpath(paths)
    return [Path(path).name if path == common else os.path.relpath(path, common) for path in paths]
