"""How a study is run, kept and read, on a kind that measures nothing."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.core.tiny import fast_first
from tests.profile import stand_in
from tests.profile.kept import KEPT
from tests.profile.stand_in import run as weighed
from tests.profile.studying import make
from trio_profile.errors import StoreError
from trio_profile.records.files import STUDY
from trio_profile.records.lock import HOLDER, LOCK, lock_directory
from trio_profile.records.writing import make_directory
from trio_profile.study import running
from trio_profile.study.kinds import KINDS


@pytest.fixture
def runs(weigh, monkeypatch) -> list[str]:
    """The models of the studies that were measured, one for each time."""
    measured: list[str] = []

    def run(study, directory, watch):
        measured.append(study.model)
        return weighed(study)

    monkeypatch.setattr(stand_in, "run", run)
    return measured


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_is_read_as_its_kind_and_nothing_is_written(kind, tmp_path):
    KEPT[kind](tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = running.read(tmp_path)
    assert found.kind is KINDS[kind]
    assert found.warnings == ()
    assert running.findings(found).pages
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    # The page of a kind that runs a model warns of a built-in one.
    if KINDS[kind].runs_a_model:
        study = found.document.study.model_copy(update={"model": "pocket"})
        found = replace(found, document=found.document.model_copy(update={"study": study}))
    assert ("pocket is a toy model" in running.findings(found).banner) == KINDS[kind].runs_a_model


def test_an_empty_directory_holds_no_study_and_stays_empty(tmp_path):
    with pytest.raises(StoreError, match="holds no study"):
        running.write_report_again(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match=r"none of measurements\.jsonl, "):
        running.read(tmp_path)
    with pytest.raises(StoreError, match="nowhere does not exist"):
        running.read(tmp_path / "nowhere")


def test_a_directory_with_two_studies_is_refused(runs, tmp_path):
    running.run(make("weigh"), tmp_path)
    KEPT["sweep"](tmp_path)
    with pytest.raises(StoreError, match=r"holds measurements\.jsonl and weighed\.json: move each study"):
        running.read(tmp_path)


# --- running again ---------------------------------------------------------------------------------------------------


def test_a_finished_document_is_not_measured_again(runs, tmp_path):
    study = make("weigh")
    first = running.run(study, tmp_path)
    second = running.run(study, tmp_path)
    assert first == second
    with pytest.raises(StoreError, match=r"holds another study: seed \(0 there, 1 here\)"):
        running.run(make("weigh", seed=1), tmp_path)
    with pytest.raises(StoreError, match=r"holds weighed\.json, which is no study of kind 'sweep'"):
        running.run(make("sweep", device="cpu"), tmp_path)
    with pytest.raises(StoreError, match="holds a study already, and --no-resume was given"):
        running.run(study, tmp_path, resume=False)
    assert runs == ["pocket"]
    assert first.document.report == str(tmp_path / "report.html")
    assert (tmp_path / STUDY).is_file()


def test_another_machine_is_refused_by_what_differs(runs, tmp_path, monkeypatch):
    document = running.run(make("weigh"), tmp_path).document
    here = document.environment.model_copy(update={"torch": "1.0.0"})
    monkeypatch.setattr("trio_profile.inputs.environment.collect", lambda _: here)
    with pytest.raises(StoreError, match="holds another environment: torch"):
        running.run(make("weigh"), tmp_path)


def test_an_exchanged_checkpoint_is_refused_by_the_file_that_changed(runs, checkpoint, tmp_path):
    copytree(checkpoint, tmp_path / "model")
    study = make("weigh", model=str(tmp_path / "model"))
    running.run(study, tmp_path / "out")
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    with pytest.raises(StoreError, match=r"model has changed since .* \(generation_config\.json\)"):
        running.run(study, tmp_path / "out")
    assert runs == [study.model]


def test_without_a_directory_nothing_is_kept(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert running.run(make("weigh")).document.report is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_a_failed_study_made_is_removed(weigh, tmp_path, monkeypatch):
    def fails(*_):
        raise StoreError("it cannot be counted")

    monkeypatch.setattr(stand_in, "run", fails)
    with pytest.raises(StoreError, match="cannot be counted"):
        running.run(make("weigh"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- two processes ---------------------------------------------------------------------------------------------------


def test_a_second_process_neither_measures_nor_writes_a_report_while_the_first_writes(runs, tmp_path):
    (tmp_path / "weighed.json").write_text(weighed(make("weigh")).model_dump_json())
    with lock_directory(tmp_path):
        with pytest.raises(StoreError, match="another process is writing to"):
            running.write_report_again(tmp_path)
        with pytest.raises(StoreError, match="another process is writing to"):
            running.run(make("weigh"), tmp_path)
    assert runs == [] and not (tmp_path / "report.html").exists()
    assert running.write_report_again(tmp_path).document.report == str(tmp_path / "report.html")


def test_a_directory_that_is_removed_while_a_study_runs_is_made_again(weigh, tmp_path, monkeypatch):
    def removes(study, directory, watch):
        rmtree(directory)
        return weighed(study)

    monkeypatch.setattr(stand_in, "run", removes)
    running.run(make("weigh"), tmp_path / "out")
    assert (tmp_path / "out" / "weighed.json").is_file()


# --- what cannot be written is refused before anything is measured ---------------------------------------------------


def test_a_directory_in_the_place_of_a_file_is_refused_before_anything_is_measured(runs, tmp_path):
    (tmp_path / "weighed.json").mkdir()
    with pytest.raises(StoreError, match="is a directory, not a regular file; move it, or choose another --out"):
        running.run(make("weigh"), tmp_path)
    assert runs == []


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/nowhere", "a" * 300])
def test_an_out_that_cannot_be_made_is_refused_before_anything_is_measured(runs, place):
    with pytest.raises((StoreError, OSError)):
        running.run(make("weigh"), Path(place))
    assert runs == []


def test_a_refused_driver_does_not_remove_the_directory_of_the_first(weigh, tmp_path, monkeypatch):
    """Both drivers begin before the directory is there. The first one makes and locks it while the second makes it."""
    out = tmp_path / "out"

    def second_makes(directory):
        found = make_directory(directory)
        monkeypatch.setattr(running, "make_directory", make_directory)
        first.enter_context(running._own_directory(directory))
        return found

    with ExitStack() as first:
        monkeypatch.setattr(running, "make_directory", second_makes)
        with pytest.raises(StoreError, match="another process is writing to"):
            running.run(make("weigh"), out)
        assert {path.name for path in out.iterdir()} == {LOCK, HOLDER}


# --- killed at any moment --------------------------------------------------------------------------------------------


def killed_at(step: int, directory: Path, work: Callable[[Path], object]) -> bool:
    """Do the work in a process that is killed before its nth look into a directory. Return whether it came so far."""
    number = os.fork()
    if number == 0:
        left = step

        def count(event: str, details: tuple) -> None:
            nonlocal left
            left -= event in ("open", "os.rename", "os.remove") and str(details[0]).startswith(str(directory))
            if left == 0:
                left = -1  # to kill is an event too
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work(directory)
        os._exit(0)
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize("verb", fast_first(["weigh", "report"], "weigh"))
@pytest.mark.slow
def test_a_study_that_was_killed_anywhere_is_finished_without_leftovers(verb, runs, tmp_path):
    """The moment is a step of its work, not a time."""

    def work(out: Path) -> None:
        running.write_report_again(out) if verb == "report" else running.run(make("weigh"), out)

    def begun(name: str) -> Path:
        (out := tmp_path / name).mkdir()
        if verb == "report":
            KEPT["sweep"](out)
        return out

    work(whole := begun("whole"))
    expected, step = sorted(path.name for path in whole.iterdir()), 1
    while killed_at(step, out := begun(f"out-{step}"), work):
        work(out)
        assert sorted(path.name for path in out.iterdir()) == expected
        step += 1
    assert step > 5


def test_leftovers_of_earlier_versions_are_removed_and_files_of_others_are_not(tmp_path):
    left = (".report.html.4711", ".study.toml.1", "..lock.txt.99999")
    others = (".report.html", ".notes.4711", "report.html.1", ".sample")
    for name in left + others:
        (tmp_path / name).touch()
    with lock_directory(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {*others, LOCK}
