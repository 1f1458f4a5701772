"""Run, read and report a study of any kind. Nothing here imports torch before a study runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from filelock import FileLock, Timeout

from trio_profile.errors import StoreError
from trio_profile.findings.blocks import Report
from trio_profile.progress import Watch, ignore
from trio_profile.records.files import MEASUREMENTS, STUDY
from trio_profile.records.store import (
    Store,
    make_directory,
    read_document,
    require_same,
    to_toml,
    write_document,
    write_whole,
)
from trio_profile.records.study import Study
from trio_profile.render import html
from trio_profile.studies import asked
from trio_profile.studies.kinds import KINDS, Kind, find

LOCK = ".lock"


@dataclass(frozen=True)
class Finished:
    """A study that was run or read.

    kind: its kind.
    document: its document.
    warnings: one sentence for each record that could not be read.
    """

    kind: Kind
    document: Any
    warnings: tuple[str, ...] = ()


def run(study: Study, out: Path | None = None, *, resume: bool = True, watch: Watch = ignore) -> Finished:
    """Run the part of a study that `out` does not hold yet, and write its report there.

    out: a directory; it is made if it is missing. None: the default of the kind. If the kind has no default, nothing is
        written.
    resume: continue the study in `out`. False refuses a directory that holds a study.
    watch: called with each step.
    Raises StoreError if the directory holds another study, or if another process writes to it. Other errors are those
    of the kind's runner. After an error, finished cells stay in `out`.
    """
    kind = find(study.verb)
    out = Path(kind.out) if out is None and kind.out else out
    if out is None:
        return Finished(kind, kind.load("runner")(study, None, watch))
    if not resume and _study_files(out):
        raise StoreError(f"{out} holds a study already, and --no-resume was given; choose another --out")
    with _new_directory(out), _lock(out):
        if kind.file == MEASUREMENTS:
            _refuse_others(out, kind)
            kind.load("runner")(study, out, watch)
        elif not _is_finished(study, kind, out):
            write_document(out / kind.file, kind.load("runner")(study, out, watch))
            write_whole(out / STUDY, to_toml(study, asked.fields_of(kind)))
        return write_report(read(out), out)


def read(directory: Path) -> Finished:
    """Read the study in a directory. Nothing is written.

    Raises StoreError if the directory holds no study, or more than one.
    """
    if not directory.exists():
        raise StoreError(f"{directory} does not exist: name a directory in which a study was kept (--out)")
    files = _study_files(directory)
    if not files:
        names = ", ".join(dict.fromkeys(kind.file for kind in KINDS.values()))
        raise StoreError(f"{directory} holds no study: none of {names} is there")
    if len(files) > 1:
        raise StoreError(f"{directory} holds {' and '.join(files)}: move each study to a directory of its own")
    if files[0] == MEASUREMENTS:
        contents = Store(directory).read()
        kind = find(contents.study.verb)
        return Finished(kind, kind.load("document")(contents), tuple(contents.dropped))
    kind = next(kind for kind in KINDS.values() if kind.file == files[0])
    return Finished(kind, read_document(directory / kind.file, kind.load("document")))


def findings(finished: Finished, **display: Any) -> Report:
    """Return the report of a document. display: options of the display, such as `unit="flops"` for the kind `flops`."""
    return finished.kind.load("report")(finished.document, **display)


def write_report(finished: Finished, directory: Path) -> Finished:
    """Write report.html, and return the document with the path of the page.

    The document inside the page has no path, because pages are moved.
    """
    path = html.write(findings(finished), directory)
    document = finished.document.model_copy(update={"report": str(path)})
    return Finished(finished.kind, document, finished.warnings)


def _study_files(directory: Path) -> list[str]:
    """Return the names of the study files in a directory."""
    files = dict.fromkeys(kind.file for kind in KINDS.values())
    return [name for name in files if (directory / name).is_file() and (directory / name).stat().st_size]


def _refuse_others(out: Path, kind: Kind) -> None:
    """Raise StoreError if the directory holds the file of another kind."""
    if others := [name for name in _study_files(out) if name != kind.file]:
        raise StoreError(f"{out} holds {others[0]}, which is no study of kind {kind.name!r}; choose another --out")


def _is_finished(study: Study, kind: Kind, out: Path) -> bool:
    """Return whether `out` holds the finished document of this study, measured on the same kind of machine.

    A document without a study.toml belongs to an interrupted study.
    Raises StoreError if the directory holds another study, or a study of another kind of machine.
    """
    _refuse_others(out, kind)
    if not _study_files(out):
        return False
    document = read_document(out / kind.file, kind.load("document"))
    finished = (out / STUDY).is_file()
    stored = asked.stored(out / STUDY) if finished else document.study
    if stored is None:
        raise StoreError(f"{out} holds {kind.file} but no {STUDY}, so its question is unknown; choose another --out")
    require_same("study", stored.model_dump(), study.model_dump(), out)
    if not (finished and kind.runs_a_model):
        return False
    from trio_profile.inputs.environment import collect

    environment = collect("cpu" if study.device == "meta" else study.device)
    require_same("environment", document.environment.identity, environment.identity, out)
    return True


@contextmanager
def _new_directory(directory: Path) -> Iterator[None]:
    """Make a directory. If it is new and still empty at the end, remove it."""
    is_new = not directory.exists()
    make_directory(directory)
    try:
        yield
    finally:
        if is_new and {path.name for path in directory.iterdir()} <= {LOCK}:
            rmtree(directory, ignore_errors=True)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes. Raises StoreError if another process has locked it."""
    lock = FileLock(directory / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"another process is writing to {directory}: wait for it, or choose another --out") from error
    except OSError as error:
        raise StoreError(f"cannot write to {directory}: {error.strerror}; choose another --out") from error
    try:
        yield
    finally:
        lock.release()
