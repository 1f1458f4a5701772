"""How a study is run, kept and read, on kinds that cost little: the dense work of pocket without weights, an audit."""

import subprocess
import sys

import pytest

from tests.profile.documents import KEPT
from tests.profile.studying import make
from trio_profile.errors import StoreError, StudyError
from trio_profile.records.store import STUDY
from trio_profile.studies import asked, flops, running
from trio_profile.studies.kinds import KINDS


@pytest.fixture(scope="module")
def document() -> flops.FlopsDocument:
    return flops.run(make("flops", device="meta"))


@pytest.fixture
def runs(document, monkeypatch) -> list[str]:
    """The studies that were measured: the runner of `flops` takes down each and returns one document."""
    measured: list[str] = []

    def run(study, directory, watch):
        measured.append(study.model)
        return document.model_copy(update={"study": study})

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


def test_an_empty_directory_holds_no_study(tmp_path):
    with pytest.raises(StoreError, match=r"holds no study: none of measurements\.jsonl, evaluation\.json, flops\.json"):
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
    assert runs == ["pocket"]
    assert first == second
    assert first.document.report == str(tmp_path / "report.html")
    assert (tmp_path / STUDY).is_file()


def test_another_study_is_refused_by_the_field_that_differs(runs, tmp_path):
    running.run(make("flops", device="meta"), tmp_path)
    with pytest.raises(StoreError, match=r"holds another study: seed \(0 there, 1 here\)"):
        running.run(make("flops", device="meta", seed=1), tmp_path)
    assert runs == ["pocket"]


def test_another_machine_is_refused_by_what_differs(runs, document, tmp_path, monkeypatch):
    running.run(make("flops", device="meta"), tmp_path)
    here = document.environment.model_copy(update={"torch": "1.0.0"})
    monkeypatch.setattr("trio_profile.inputs.environment.collect", lambda _: here)
    with pytest.raises(StoreError, match="holds another environment: torch"):
        running.run(make("flops", device="meta"), tmp_path)


def test_a_directory_in_use_can_be_refused(runs, tmp_path):
    study = make("flops", device="meta")
    running.run(study, tmp_path)
    with pytest.raises(StoreError, match="holds a study already, and --no-resume was given"):
        running.run(study, tmp_path, resume=False)
    assert runs == ["pocket"]


def test_a_study_of_another_kind_is_refused(runs, tmp_path):
    running.run(make("audit", claims="fastv"), tmp_path)
    with pytest.raises(StoreError, match=r"holds audit\.json, which is no study of kind 'flops'"):
        running.run(make("flops", device="meta"), tmp_path)
    assert runs == []


def test_an_audit_is_done_again_and_another_paper_is_refused(tmp_path):
    first = running.run(make("audit", claims="fastv"), tmp_path)
    assert running.run(make("audit", claims="fastv"), tmp_path) == first
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


def test_a_directory_that_cannot_be_made_is_refused_before_anything_is_measured(runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make .*; choose another --out"):
        running.run(make("flops", device="meta"), tmp_path / "file" / "out")
    assert runs == []


# --- two processes ---------------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_while_the_first_writes(runs, tmp_path):
    holder = (
        "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print('held', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", holder, str(tmp_path / running.LOCK)]
    study = make("flops", device="meta")
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError) as caught:
            running.run(study, tmp_path)
        other.stdin.close()
    expected = f"another process is writing to {tmp_path}: wait for it, or choose another --out"
    assert (str(caught.value), runs) == (expected, [])
    running.run(study, tmp_path)
    assert runs == ["pocket"]


def test_a_document_of_a_newer_version_is_refused(tmp_path):
    study = asked.make("audit", {"claims": "vtw"})
    running.run(study, tmp_path)
    text = (tmp_path / "audit.json").read_text()
    (tmp_path / "audit.json").write_text(text.replace('"version": 1', '"version": 9', 1))
    with pytest.raises(StoreError, match="format version 9 is newer than 1: upgrade trio-profile"):
        running.read(tmp_path)


def test_a_document_whose_question_is_unknown_is_not_overwritten(tmp_path):
    running.run(asked.make("audit", {"claims": "vtw"}), tmp_path)
    (tmp_path / "study.toml").unlink()
    with pytest.raises(StoreError, match="so its question is unknown; choose another --out"):
        running.run(asked.make("audit", {"claims": "dart"}), tmp_path)


def test_a_study_file_that_was_edited_badly_is_named(tmp_path):
    study = asked.make("audit", {"claims": "vtw"})
    running.run(study, tmp_path)
    (tmp_path / "study.toml").write_text('verb = "audit"\nclaims = "vtw"\nseed = "many"\n')
    with pytest.raises(StudyError, match=r"study\.toml: seed = 'many'"):
        running.run(study, tmp_path)
