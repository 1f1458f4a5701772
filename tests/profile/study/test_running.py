"""How a study is run, kept and read, on kinds that cost little: the dense work of pocket without weights, an audit."""

import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.core.tiny import fast_first
from tests.profile.kept import KEPT
from tests.profile.kinds.servers.kept import segment_with
from tests.profile.studying import make
from trio_profile import cli
from trio_profile.errors import StoreError, StudyError
from trio_profile.inputs import host
from trio_profile.inputs.digest import input_digests
from trio_profile.kinds.flops import run as flops
from trio_profile.kinds.servers import run as endpoints
from trio_profile.kinds.servers.plan import prepare
from trio_profile.kinds.servers.requests import ARMS, RequestStore
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.records.files import STUDY
from trio_profile.records.lock import HOLDER, LOCK, lock_directory
from trio_profile.records.writing import make_directory
from trio_profile.study import running
from trio_profile.study.kinds import KINDS


@pytest.fixture(scope="module")
def document() -> flops.FlopsDocument:
    return flops.run(make("flops", device="meta"))


@pytest.fixture
def runs(document, monkeypatch) -> list[str]:
    """The studies that were measured: the runner of `flops` takes down each and returns one document."""
    measured: list[str] = []

    def run(study, directory, watch):
        measured.append(study.model)
        session = host.session(document.environment, input_digests(study))
        return document.model_copy(update={"study": study, "sessions": (session,)})

    monkeypatch.setattr(flops, "run", run)
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
    with pytest.raises(StoreError, match=r"none of measurements\.jsonl, evaluation\.json, endpoints\.json"):
        running.read(tmp_path)
    with pytest.raises(StoreError, match="nowhere does not exist"):
        running.read(tmp_path / "nowhere")


def test_a_directory_with_two_studies_is_refused(tmp_path):
    KEPT["audit"](tmp_path)
    KEPT["sweep"](tmp_path)
    with pytest.raises(StoreError, match=r"holds measurements\.jsonl and audit\.json: move each study"):
        running.read(tmp_path)


# --- running again ---------------------------------------------------------------------------------------------------


def test_a_finished_document_is_not_measured_again(runs, tmp_path):
    study = make("flops", device="meta")
    first = running.run(study, tmp_path)
    second = running.run(study, tmp_path)
    assert first == second
    with pytest.raises(StoreError, match=r"holds another study: seed \(0 there, 1 here\)"):
        running.run(make("flops", device="meta", seed=1), tmp_path)
    with pytest.raises(StoreError, match=r"holds flops\.json, which is no study of kind 'sweep'"):
        running.run(make("sweep", device="cpu"), tmp_path)
    with pytest.raises(StoreError, match="holds a study already, and --no-resume was given"):
        running.run(study, tmp_path, resume=False)
    assert runs == ["pocket"]
    assert first.document.report == str(tmp_path / "report.html")
    assert (tmp_path / STUDY).is_file()


def test_another_machine_is_refused_by_what_differs(runs, document, tmp_path, monkeypatch):
    running.run(make("flops", device="meta"), tmp_path)
    here = document.environment.model_copy(update={"torch": "1.0.0"})
    monkeypatch.setattr("trio_profile.inputs.environment.collect", lambda _: here)
    with pytest.raises(StoreError, match="holds another environment: torch"):
        running.run(make("flops", device="meta"), tmp_path)


def test_an_exchanged_checkpoint_is_refused_by_the_file_that_changed(runs, checkpoint, tmp_path):
    copytree(checkpoint, tmp_path / "model")
    study = make("flops", model=str(tmp_path / "model"), device="meta")
    running.run(study, tmp_path / "out")
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    with pytest.raises(StoreError, match=r"model has changed since .* \(generation_config\.json\)"):
        running.run(study, tmp_path / "out")
    assert runs == [study.model]


def test_an_audit_is_done_again_and_another_paper_is_refused(tmp_path):
    first = running.run(make("audit", claims="fastv"), tmp_path)
    again = running.run(make("audit", claims="fastv"), tmp_path)
    assert again.document.claims == first.document.claims
    assert again.document.sessions != first.document.sessions
    with pytest.raises(StoreError, match=r"holds another study: claims \('fastv' there, 'dart' here\)"):
        running.run(make("audit", claims="dart"), tmp_path)


def test_without_a_directory_nothing_is_kept(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert running.run(make("flops", device="meta")).document.report is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_a_failed_study_made_is_removed(tmp_path, monkeypatch):
    def fails(*_):
        raise StoreError("it cannot be counted")

    monkeypatch.setattr(flops, "run", fails)
    with pytest.raises(StoreError, match="cannot be counted"):
        running.run(make("flops", device="meta"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def asks_a_part(monkeypatch, segments: int, error: BaseException) -> EndpointStudy:
    """A study of servers that ends with an error after some segments, two for each pair. Nobody is asked."""
    asked_servers = prepare(EndpointStudy(dense="http://dense", pruned="http://pruned", concurrency=(1, 2), rounds=2))

    def run(study, directory, watch):
        store = RequestStore(directory, study, host.session(host.without_torch()))
        store.start()
        for number in range(segments):
            load, arm = study.loads[number // 4], ARMS[number % 2]
            segment, requests = segment_with(study, number, arm, load, 2.0 + number % 2, round=number // 2 % 2)
            store.append(*requests, segment)
        raise error

    monkeypatch.setattr(endpoints, "run", run)
    return asked_servers


def test_an_error_leaves_the_document_and_the_page_of_the_finished_pairs(tmp_path, monkeypatch):
    study = asks_a_part(monkeypatch, 5, StudyError("the pruned server fails; start it again"))
    with pytest.raises(StudyError) as caught:
        running.run(study, tmp_path / "out")
    page = tmp_path / "out" / "report.html"
    assert str(caught.value) == f"the pruned server fails; start it again; {page} shows the finished pairs"
    assert page.is_file() and not (tmp_path / "out" / STUDY).exists()
    assert [(one.load, one.rounds) for one in running.read(tmp_path / "out").document.loads] == [(1, 2)]
    with pytest.raises(StudyError, match="shows the finished pairs"):  # the same command goes on
        running.run(study, tmp_path / "out")


@pytest.mark.parametrize("segments", [0, 1])
def test_an_error_without_a_finished_pair_stays_as_it_is(segments, tmp_path, monkeypatch):
    study = asks_a_part(monkeypatch, segments, StudyError("it fails"))
    with pytest.raises(StudyError, match=r"^it fails$"):
        running.run(study, tmp_path)
    assert not (tmp_path / "report.html").exists()


# --- two processes ---------------------------------------------------------------------------------------------------


def test_a_second_process_neither_measures_nor_writes_a_report_while_the_first_writes(runs, tmp_path):
    KEPT["layers"](tmp_path)
    with lock_directory(tmp_path):
        with pytest.raises(StoreError, match="another process is writing to"):
            running.write_report_again(tmp_path)
        with pytest.raises(StoreError, match="another process is writing to"):
            running.run(make("flops", device="meta"), tmp_path)
    assert runs == [] and not (tmp_path / "report.html").exists()
    assert running.write_report_again(tmp_path).document.report == str(tmp_path / "report.html")


def test_a_directory_that_is_removed_while_a_study_runs_is_made_again(document, tmp_path, monkeypatch):
    def removes(study, directory, watch):
        rmtree(directory)
        return document.model_copy(update={"study": study})

    monkeypatch.setattr(flops, "run", removes)
    running.run(make("flops", device="meta"), tmp_path / "out")
    assert (tmp_path / "out" / "flops.json").is_file()


def test_a_document_whose_question_is_unknown_or_was_edited_badly_is_not_overwritten(tmp_path):
    study = make("audit", claims="vtw")
    running.run(study, tmp_path)
    (tmp_path / "study.toml").write_text('verb = "audit"\nclaims = "vtw"\nseed = "many"\n')
    with pytest.raises(StudyError, match=r"study\.toml: seed = 'many'"):
        running.run(study, tmp_path)
    (tmp_path / "study.toml").unlink()
    with pytest.raises(StoreError, match="so nothing says what was asked; choose another --out"):
        running.run(make("audit", claims="dart"), tmp_path)


# --- what cannot be written is refused before anything is measured ---------------------------------------------------


def test_a_directory_in_the_place_of_a_file_is_refused_before_anything_is_measured(runs, tmp_path):
    (tmp_path / "flops.json").mkdir()
    with pytest.raises(StoreError, match="is a directory, not a regular file; move it, or choose another --out"):
        running.run(make("flops", device="meta"), tmp_path)
    assert runs == []


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/nowhere", "a" * 300])
def test_an_out_that_cannot_be_made_is_refused_before_anything_is_measured(runs, place):
    with pytest.raises((StoreError, OSError)):
        running.run(make("flops", device="meta"), Path(place))
    assert runs == []


def test_a_refused_driver_does_not_remove_the_directory_of_the_first(document, tmp_path, monkeypatch):
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
            running.run(make("flops", device="meta"), out)
        assert {path.name for path in out.iterdir()} == {LOCK, HOLDER}


# --- killed at any moment --------------------------------------------------------------------------------------------


def killed_at(step: int, directory: Path, *arguments: str) -> bool:
    """Run a verb in a process that is killed before its nth look into a directory. Return whether it came so far."""
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
        os._exit(cli.run([*arguments]))
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("kind", "verb"), fast_first([("audit", "audit"), ("sweep", "report"), ("layers", "report")], "sweep")
)
def test_a_study_that_was_killed_anywhere_is_finished_without_leftovers(kind, verb, tmp_path, capfd):
    """The moment is a step of its work, not a time."""

    def command(out: Path) -> list[str]:
        return ["audit", "trio-2026", "--out", str(out)] if verb == "audit" else ["report", str(out)]

    def begun(name: str) -> Path:
        (out := tmp_path / name).mkdir()
        if verb == "report":
            KEPT[kind](out)
        return out

    whole = begun("whole")
    assert cli.run(command(whole)) == 0
    expected, step = sorted(path.name for path in whole.iterdir()), 1
    while killed_at(step, out := begun(f"out-{step}"), *command(out)):
        assert cli.run(command(out)) == 0
        assert sorted(path.name for path in out.iterdir()) == expected
        step += 1
    assert step > 5


def test_leftovers_of_earlier_versions_are_removed_and_files_of_others_are_not(tmp_path):
    left = (".report.html.4711", ".study.toml.1", "..lock.txt.99999", ".sample-x7f_3a")
    others = (".report.html", ".notes.4711", "report.html.1", ".sample")
    for name in left + others:
        (tmp_path / name).touch()
    with lock_directory(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {*others, LOCK}
