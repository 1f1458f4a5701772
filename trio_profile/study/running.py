"""Run, read and report a study of any kind. Nothing here imports torch before a study runs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from trio_profile.errors import ProfileError, StoreError, StudyError
from trio_profile.inputs.catalogue import require_reachable
from trio_profile.progress import Watch, ignore
from trio_profile.records.differences import require_same, require_same_environment, require_same_inputs
from trio_profile.records.documents import read_document, write_document
from trio_profile.records.files import ANSWERS, MEASUREMENTS, REPORT, REQUESTS, STUDY, TRACE
from trio_profile.records.lock import HOLDER, LOCK, lock_directory
from trio_profile.records.store import Store, to_toml
from trio_profile.records.study import Study
from trio_profile.records.writing import make_directory, require_regular, require_writable, write_whole
from trio_profile.report import html
from trio_profile.report.blocks import Report
from trio_profile.study import asked
from trio_profile.study.asked import AnyStudy
from trio_profile.study.kind import Kind
from trio_profile.study.kinds import KINDS, find
from trio_profile.study.table_rows import csv_text, rows_of_kind

if TYPE_CHECKING:
    from trio_profile.engine.hosts import Engine


@dataclass(frozen=True)
class Finished:
    """A study that was run or read.

    kind: its kind.
    document: its document.
    warnings: one sentence for each record that could not be read.
    claims: a claims file, or the name of a built-in one, whose figures stand beside the measured ones; None for none.
    """

    kind: Kind
    document: Any
    warnings: tuple[str, ...] = ()
    claims: str | None = None


def run(
    study: AnyStudy,
    out: Path | None = None,
    *,
    resume: bool = True,
    watch: Watch = ignore,
    engine: "Engine | None" = None,
) -> Finished:
    """Run the part of a study that `out` does not hold yet, and write its report there.

    out: a directory; it is made if it is missing. None: the default of the kind. If the kind has no default, nothing is
        written.
    resume: continue the study in `out`. False refuses a directory that holds a study.
    watch: called with each step.
    engine: whose hosts measure a study of cells. None: this machine.
    Raises StoreError if the directory holds another study, or if another process writes to it. Other errors are those
    of the kind's runner. After an error, finished cells stay in `out`. If the kind can show an unfinished study, its
    document and its page are written before the error leaves, and the error names the page.
    """
    kind = find(study.verb)
    out = Path(kind.out) if out is None and kind.out else out
    if out is None:
        return _finished(kind, kind.load("runner")(study, None, watch))
    _require_free(out, kind, resume=resume)
    with _own_directory(out):
        require_writable(out, (kind.file, STUDY, REPORT, TRACE, ANSWERS, REQUESTS))
        html.require_ours(out / REPORT)  # before anything that takes long
        if kind.file == MEASUREMENTS:
            _refuse_others(out, kind)
            kind.load("runner")(study, out, watch, keep_refusals=kind.keep_refusals, engine=engine)
        elif not _is_finished(study, kind, out):
            document = _measure(study, kind, out, watch)
            if kind.so_far:  # a document without a study.toml is unfinished, and the same command goes on
                write_document(out / kind.file, document)
            if not getattr(document, "pairs_left", 0):
                write_whole(out / STUDY, to_toml(study, asked.fields_of(kind)))
            if not kind.so_far:
                write_document(out / kind.file, document)
        return write_report(out)


def refuse(draft: asked.Draft, out: Path | None, *, resume: bool = True) -> None:
    """Raise the errors of `run` that need no torch, before anything that takes long.

    Raises StoreError if the directory holds another study, or if `resume` is False and it holds any. Raises StudyError
    if the model is on a hub that cannot be reached.
    """
    kind, study = find(draft.study.verb), draft.study
    out = Path(kind.out) if out is None and kind.out else out
    if out is not None and out.is_dir():
        _require_free(out, kind, resume=resume)
        _refuse_others(out, kind)
        is_kept = Store(out).exists() if kind.file == MEASUREMENTS else bool(_study_files(out))
        if is_kept and (out / STUDY).is_file() and isinstance(study, Study):
            kept, new = asked.stored(out / STUDY), study.identity()
            same = {name: value for name, value in new.items() if name not in draft.open}
            require_same("study", kept.model_dump(), same, out)
    if kind.runs_a_model:
        require_reachable(study.model)


def _require_free(out: Path, kind: Kind, *, resume: bool) -> None:
    if not resume and (_study_files(out) or _is_unfinished(out, kind)):
        raise StoreError(f"{out} holds a study already, and --no-resume was given; choose another --out")


def _measure(study: AnyStudy, kind: Kind, out: Path, watch: Watch) -> Any:
    """Return the document of a study. Before an error leaves, write the document and the page of what is finished."""
    try:
        return kind.load("runner")(study, out, watch)
    except (ProfileError, KeyboardInterrupt) as error:
        with suppress(ProfileError):  # nothing is finished, or nothing can be written: the first error says more
            if kind.so_far:
                write_document(out / kind.file, kind.load("so_far")(study, out))
                write_report(out)
                if isinstance(error, ProfileError):
                    error.args = (f"{error}; {out / REPORT} shows the finished pairs",)
        raise


def read(directory: Path) -> Finished:
    """Read the study in a directory. Nothing is written.

    Raises StoreError if the directory holds no study, or more than one.
    """
    file = _study_file(directory)
    if file == MEASUREMENTS:
        contents = Store(directory).read()
        kind = find(contents.study.verb)
        return _finished(kind, kind.load("document")(contents), tuple(contents.dropped))
    kind = next(kind for kind in KINDS.values() if kind.file == file)
    return _finished(kind, read_document(directory / kind.file, kind.load("document")))


def _finished(kind: Kind, document: Any, warnings: tuple[str, ...] = ()) -> Finished:
    """Return a study with the conclusion of its document."""
    if kind.conclude:
        document = document.model_copy(update={"conclusion": kind.load("conclude")(document)})
    return Finished(kind, document, warnings)


def write_report_again(directory: Path, out: Path | None = None, claims: str | None = None) -> Finished:
    """Read the study in a directory, and write its page again.

    out: the file of the page. None: report.html of the directory.
    claims: a claims file, or the name of one that ships with the package: its figures stand beside the measured ones.
    Raises StoreError if the directory holds no study, if another process writes to it, or if the file is no page of
    trio-profile. Raises ClaimsError for claims that cannot be read, StudyError for a kind that has none beside it.
    """
    _study_file(directory)  # no lock is put into a directory without a study
    if out is not None:
        return write_report(directory, out, claims)
    with lock_directory(directory):
        return write_report(directory, claims=claims)


def findings(finished: Finished, **display: Any) -> Report:
    """Return the report of a document. display: options of the display, such as `unit="flops"` for the kind `flops`."""
    document = finished.document
    report = replace(finished.kind.load("report")(document, **display), conclusion=document.conclusion)
    if finished.kind.runs_a_model:
        from trio_profile.report.page import with_banner  # an audit need not import this

        report = with_banner(report, document.study.model, document.sessions)
    if finished.claims is None:
        return report
    return find("audit").load("with_claims")(report, document, finished.claims)


def write_report(directory: Path, out: Path | None = None, claims: str | None = None) -> Finished:
    """Read the study in a directory, write its page, and return it with the path of the page.

    The document inside the page has no path, because pages are moved. The arguments are those of `write_report_again`.
    """
    return write_page(replace(read(directory), claims=claims), directory / REPORT if out is None else out)


def write_page(finished: Finished, path: Path) -> Finished:
    """Write the page of a study into a file, and return the study with the path of its page."""
    html.write_page(replace(findings(finished), csv=_csv(finished)), path)
    return replace(finished, document=finished.document.model_copy(update={"report": str(path)}))


def _csv(finished: Finished) -> str:
    """Return what `export --format csv` prints. Empty for a study without rows."""
    try:
        return csv_text(rows_of_kind(finished.kind, finished.document))
    except StudyError:
        return ""


def _study_file(directory: Path) -> str:
    """Return the name of the only study file in a directory. Raises StoreError if there is none, or more than one."""
    if not directory.exists():
        raise StoreError(f"{directory} does not exist: name a directory in which a study was kept (--out)")
    files = _study_files(directory)
    if not files:
        names = ", ".join(dict.fromkeys(kind.file for kind in KINDS.values()))
        raise StoreError(f"{directory} holds no study: none of {names} is there")
    if len(files) > 1:
        raise StoreError(f"{directory} holds {' and '.join(files)}: move each study to a directory of its own")
    return files[0]


def _study_files(directory: Path) -> list[str]:
    """Return the names of the study files in a directory. Raises StoreError if one of these names is no file."""
    files = dict.fromkeys(kind.file for kind in KINDS.values())
    for name in files:
        require_regular(directory / name)
    if next(directory.glob("measurements-*.jsonl"), None) or (directory / ".leases").is_dir():
        raise StoreError(
            f"{directory} was measured by workers, which trio-profile no longer has: measure the study of its {STUDY} "
            "again, into another --out (--engine ray for several machines)"
        )
    return [name for name in files if (directory / name).is_file() and (directory / name).stat().st_size]


def _is_unfinished(out: Path, kind: Kind) -> bool:
    """Return whether a directory holds an unfinished study of a kind that goes on."""
    return bool(kind.unfinished) and (out / kind.unfinished).is_file()


def _refuse_others(out: Path, kind: Kind) -> None:
    """Raise StoreError if the directory holds the file of another kind."""
    others = [name for name in _study_files(out) if name != kind.file]
    others += [other.unfinished for other in KINDS.values() if other != kind and _is_unfinished(out, other)]
    if others:
        raise StoreError(f"{out} holds {others[0]}, which is no study of kind {kind.name!r}; choose another --out")


def _is_finished(study: AnyStudy, kind: Kind, out: Path) -> bool:
    """Return whether `out` holds the finished document of this study, measured on the same kind of machine.

    A document without a study.toml belongs to an interrupted study.
    Raises StoreError if the directory holds another study, or a study of another kind of machine, or if a file that was
    measured has changed since.
    """
    _refuse_others(out, kind)
    if not _study_files(out):
        return False
    document = read_document(out / kind.file, kind.load("document"))
    finished = (out / STUDY).is_file()
    stored = asked.stored(out / STUDY) if finished else document.study
    if stored is None:
        raise StoreError(
            f"{out} holds {kind.file} but no {STUDY}, so nothing says what was asked; choose another --out"
        )
    require_same("study", stored.model_dump(), study.model_dump(), out)
    if not (finished and isinstance(study, Study) and kind.runs_a_model):
        return False
    from trio_profile.inputs.digest import input_digests
    from trio_profile.inputs.environment import collect

    require_same_inputs(study, document.sessions, input_digests(study), out)
    environment = collect("cpu" if study.device == "meta" else study.device)
    require_same_environment(document.sessions, environment, out)
    return True


@contextmanager
def _own_directory(directory: Path) -> Iterator[None]:
    """Make and lock a directory. If it was made here and is still empty at the end, remove it."""
    was_made = make_directory(directory)
    with lock_directory(directory):
        try:
            yield
        finally:
            if was_made and directory.is_dir() and {path.name for path in directory.iterdir()} <= {LOCK, HOLDER}:
                rmtree(directory, ignore_errors=True)
