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
    path = html.write_page(report(document), Path(_file_name(names)) if out is None else out)
    warnings = [f"{name}: {line}" for name, study in zip(names, studies, strict=True) for line in study.warnings]
    return document.model_copy(update={"report": str(path)}), warnings


def names_of(directories: Sequence[Path]) -> list[str]:
    """A name for each study: the last parts of its path, as many as tell it from all others.

    Raises StudyError if a directory is named twice.
    """
    paths = [Path(os.path.abspath(directory)) for directory in directories]  # noqa: PTH100 - links stay as they are named
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise StudyError(f"{directories[place]} is named twice: name other studies")
    names: list[str] = []
    for place, path in enumerate(paths):
        others = [other.parts for other in (*paths[:place], *paths[place + 1 :])]
        parts = path.parts
        most = len(parts)
        need = next((n for n in range(1, most) if all(other[-n:] != parts[-n:] for other in others)), most)
        names.append("/".join(parts[-need:]))
    return names


def _file_name(names: Sequence[str]) -> str:
    """`report-A-B.html`; of many studies `report-A-and-3-more.html`."""
    plain = [name.replace("/", "-") for name in names]
    joined = "-".join(plain)
    if len(joined) > _LONGEST_NAME:
        joined = f"{plain[0][:_LONGEST_NAME]}-and-{len(plain) - 1}-more"
    return f"report-{joined}.html"
