"""A study that several workers measure: write it, and measure its runs (`engine/worker.py`)."""

from collections.abc import Callable
from pathlib import Path

from trio_profile.engine import worker
from trio_profile.engine.board import Terms
from trio_profile.engine.processes import require_known_methods
from trio_profile.errors import StoreError, StudyError
from trio_profile.progress import Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import require_same
from trio_profile.records.files import MEASUREMENTS, STUDY
from trio_profile.records.leases import LEASES
from trio_profile.records.lock import lock_directory
from trio_profile.records.run import runs_of
from trio_profile.records.schema import Study
from trio_profile.records.store import to_toml
from trio_profile.records.study import MATCHES, PROCESSES
from trio_profile.records.workers import worker_files
from trio_profile.records.writing import make_directory, write_whole
from trio_profile.studies import asked
from trio_profile.studies.kinds import KINDS, find


def prepare(study: Study, directory: Path, *, resume: bool = True) -> int:
    """Write a study for workers into a directory, which is made if it is missing. Return the number of its runs.

    resume: whether the directory may hold this study already.
    Raises StoreError if the directory holds another study, or one that is measured by one command. Raises StudyError as
    `stored` does.
    """
    _refuse_function(study)
    make_directory(directory)
    require_known_methods(study)
    with lock_directory(directory):
        if (directory / MEASUREMENTS).exists() or (directory / STUDY).exists() or worker_files(directory):
            if not resume:
                raise StoreError(f"{directory} holds a study already, and --no-resume was given; choose another --out")
            require_same("study", stored(directory).model_dump(), study.model_dump(), directory)
        else:
            write_whole(directory / STUDY, to_toml(study))
        make_directory(directory / LEASES)
    return len(runs_of(study, study.processes or PROCESSES))


def stored(directory: Path) -> Study:
    """Return the study in a directory, if workers can measure it.

    Raises StoreError or StudyError with the way to such a study.
    """
    if not (directory / STUDY).is_file():
        raise StoreError(
            f"{directory} holds no {STUDY}: make one with `trio-profile sweep … --engine workers --out DIR`"
        )
    study = asked.stored(directory / STUDY)
    if not isinstance(study, Study) or find(study.verb).file != MEASUREMENTS:
        names = ", ".join(kind.name for kind in KINDS.values() if kind.file == MEASUREMENTS)
        raise StoreError(f"{directory} holds a study of kind {study.verb!r}: workers measure {names}")
    if (directory / MEASUREMENTS).exists():
        raise StoreError(
            f"{directory} holds {MEASUREMENTS}, so one command measures it: run `trio-profile {study.verb}`"
        )
    _refuse_function(study)
    return study


def _refuse_function(study: Study) -> None:
    """Raise StudyError if a function of the user judges the answers: workers would import what a file names."""
    if ":" in study.match:
        rules = ", ".join(MATCHES)
        raise StudyError(f"match = {study.match!r}: workers import no function that a file names; choose {rules}")


def work(
    directory: Path,
    terms: Terms | None = None,
    watch: Watch = ignore,
    *,
    stopped: Callable[[], bool] = lambda: False,
    command: str = "",
) -> Contents:
    """Measure runs of the study in a directory, as `worker.work`. Raises StoreError as `stored` does."""
    study = stored(directory)
    keeps = find(study.verb).keep_refusals
    return worker.work(study, directory, terms, watch, stopped=stopped, command=command, keep_refusals=keeps)
