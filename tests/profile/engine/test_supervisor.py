"""Workers: several of them measure one study, some die, and the study is that of one command."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.profile.command import complaint
from tests.profile.examples import environment
from trio_profile.cli import run as run_command
from trio_profile.engine import supervisor
from trio_profile.engine.board import Assignment, Terms, board_of
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.progress import ignore
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES, Leases
from trio_profile.records.lock import lock_file
from trio_profile.records.run import Run
from trio_profile.records.schema import Session, Study
from trio_profile.records.store import Store, to_toml
from trio_profile.records.workers import WorkerFile
from trio_profile.studies import running, shared, sweep

CLOCKED = {"session", "timings", "energy", "distinct_ratios", "peak_memory_bytes", "working_memory_bytes"}
"""Fields that are not exact."""
BROKEN = """
import os
from trio_core.methods.random import Random

class Broken(Random):
    def select(self, view):
        {fault}
"""
RAISES = 'raise RuntimeError("this method\\nis broken")'


@pytest.fixture(scope="module", autouse=True)
def _quick(without_fvcore):
    """No trace by fvcore."""


@pytest.fixture
def study(tiny_study: Study) -> Study:
    return tiny_study.model_copy(update={"processes": 2, "methods": ("trio", "random"), "fidelity_inputs": 2})


def assert_same_study(one: Contents, other: Contents) -> None:
    """Compare everything that does not depend on a clock. `make test` gives both one thread (OMP_NUM_THREADS).

    With two, a worker counts with both and a local run with one, and scores differ in their last digit.
    """

    def exact(contents: Contents) -> dict[str, object]:
        assert contents.dense is not None
        cells = {name: cell.model_dump(exclude=CLOCKED) for name, cell in contents.cells.items()}
        return {**cells, "dense": contents.dense.model_dump(exclude=CLOCKED)}

    assert exact(one) == exact(other)


def started(directory: Path, name: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trio_profile", "work", str(directory), "--name", name, "--lease-seconds", "3"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def wait_for(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def holders(directory: Path) -> set[str]:
    """Return the workers that hold a lease or held one. A lease that is being made or removed now is none."""
    names: set[str] = set()
    for path in (directory / LEASES).glob("*.[0-9]"):
        with suppress(FileNotFoundError):
            names.add(path.read_text())
    return names - {""}


@pytest.mark.slow
def test_four_workers_of_which_two_are_killed_measure_the_study_of_one_command(study, tmp_path):
    out = tmp_path / "out"
    assert shared.prepare(study, out) == 1 + 1 + 2
    workers = {name: started(out, name) for name in ("a", "b", "c", "d")}
    try:
        wait_for(lambda: {"a", "b"} <= holders(out) or len(holders(out)) >= 2)
        for name in sorted(holders(out))[:2]:
            os.kill(workers.pop(name).pid, signal.SIGKILL)
        for process in workers.values():
            told, complaints = process.communicate(timeout=240)
            assert process.returncode == 0, complaints
            assert told.startswith("4 runs measured\n")
    finally:
        for process in workers.values():
            process.kill()
    found = Store(out).read()
    assert found.dropped == []
    assert len(found.runs) == 4
    assert all(len(cell.timings) == 2 for cell in found.measurements)
    for cell in found.measurements:
        assert len({timing.session for timing in cell.timings}) == 2
    assert (out / "report.html").is_file()
    assert_same_study(found, sweep.run(study, tmp_path / "local"))
    # The command that made the study reads it, and measures nothing again.
    assert sweep.run(study, out).runs == found.runs
    page = running.findings(running.read(out))
    captions = [getattr(block, "caption", "") for page in page.pages for block in page.blocks]
    assert "Which worker measured which block" in captions


def test_the_last_attempt_measures_all_cells_but_those_whose_method_raises(study, tmp_path, monkeypatch):
    (tmp_path / "broken_method.py").write_text(BROKEN.format(fault=RAISES))
    monkeypatch.syspath_prepend(tmp_path)
    out, methods = tmp_path / "out", ("broken_method:Broken", "random")
    shared.prepare(study.model_copy(update={"methods": methods, "retentions": (0.4,), "processes": 1}), out)
    found = shared.work(out, Terms("a", most_attempts=2))
    broken, random = sorted(found.measurements, key=lambda cell: cell.cell.method)
    assert (broken.status, broken.reason) == ("failed", "RuntimeError: this method")
    assert (random.status, len(random.timings)) == ("done", 1)
    assert [(str(run.key), run.attempt, run.failed) for run in found.runs] == [
        ("dense.0", 1, None),
        ("cells-1.1", 2, None),
    ]


@pytest.mark.slow
def test_a_run_that_ends_its_process_is_given_up_with_its_reason(study, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_method.py").write_text(BROKEN.format(fault="os.abort()"))
    monkeypatch.syspath_prepend(tmp_path)
    out, fields = tmp_path / "out", {"methods": ("broken_method:Broken",), "retentions": (0.4,), "processes": 1}
    shared.prepare(study.model_copy(update=fields), out)
    assert run_command(["work", str(out), "--name", "a", "--attempts", "1"]) == 0
    assert "1 run measured, 1 given up, 1 cell failed (--retry measures them again)" in capsys.readouterr().out
    found = Store(out).read()
    (cell,) = found.measurements
    assert cell.status == "failed"
    assert cell.reason is not None
    assert cell.reason.startswith(
        "given up after 1 attempt; the last one, by a: the measuring process was killed by SIGA"
    )
    assert [run.attempt for run in found.runs] == [1, 2]
    # Mended, it is measured again.
    (tmp_path / "broken_method.py").write_text("from trio_core.methods.random import Random as Broken")
    (cell,) = shared.work(out, Terms("b", retry=True)).measurements
    assert (cell.status, cell.reason) == ("done", None)


class FakeServer:
    """A server whose processes answer what a test says. It is closed from another thread if a process hangs."""

    def __init__(self, answers: Callable[..., Iterator[dict]]):
        self.give_answers, self.was_closed = answers, threading.Event()

    def __enter__(self) -> "FakeServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.was_closed.set()

    def ask(self, _task: str, request: dict) -> SimpleNamespace:
        return SimpleNamespace(answers=lambda: self.give_answers(self, request))

    def hang(self) -> None:
        assert self.was_closed.wait(30)
        raise MeasurementError("the measuring process was killed by SIGKILL")


@pytest.fixture
def answers(monkeypatch) -> Callable[[Callable[..., Iterator[dict]]], None]:
    """Sets what the processes answer: a function of the server and the request."""
    return lambda give: monkeypatch.setattr(supervisor, "Server", lambda: FakeServer(give))


def raising(error: BaseException, *claimed: dict) -> Callable[..., Iterator[dict]]:
    """Answers that a run is claimed, and then meets an error."""

    def give(*_: object) -> Iterator[dict]:
        yield from claimed
        raise error

    return give


CLAIMED = {"claimed": "dense.0", "attempt": 1}


def assignment(study: Study, directory: Path) -> Assignment:
    """What worker `a` asks of a process that counts."""
    return Assignment(study=study, directory=directory, terms=Terms("a", limit_seconds=0.1), phase="count")


def test_a_run_that_hangs_is_ended_and_goes_back(study, tmp_path, answers):
    def give(server: FakeServer, _request: dict) -> Iterator[dict]:
        yield CLAIMED
        server.hang()

    answers(give)
    leases = Leases(tmp_path, "a", 60)
    assert leases.claim("dense.0", 1)
    hung = supervisor._Process(assignment(study, tmp_path), leases, ignore)
    hung.run()
    assert hung.failed == {"dense.0": "it showed no progress for 0.1 s"}
    assert leases.attempts({"dense.0"})["dense.0"].failed
    assert leases.reason("dense.0", 1) == "a: it showed no progress for 0.1 s"


def test_a_process_that_hangs_while_it_loads_is_ended(study, tmp_path, answers):
    answers(lambda server, _: iter(server.hang, None))
    hung = supervisor._Process(assignment(study, tmp_path), Leases(tmp_path, "a"), ignore)
    with pytest.raises(MeasurementError, match=r"^a process could not begin: it showed no progress for 0\.1 s$"):
        hung.run()


def test_ctrl_c_and_a_full_disk_give_the_run_back_and_blame_nobody(study, tmp_path, answers):
    for error in (KeyboardInterrupt(), StoreError("cannot write"), OSError(errno.ENOSPC, "No space left on device")):
        answers(raising(error, CLAIMED))
        leases = Leases(tmp_path, "a", 60)
        assert leases.claim("dense.0", 1)
        with pytest.raises(type(error)):
            supervisor._Process(assignment(study, tmp_path), leases, ignore).run()
        assert leases.attempts({"dense.0"}) == {}


def test_a_worker_on_which_every_run_fails_stops(study, tmp_path, answers, monkeypatch):
    """Its machine may be at fault. It tries three different runs, and the other workers still have attempts."""
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 2)
    claimed: list[str] = []

    def give(_server: FakeServer, request: dict) -> Iterator[dict]:
        asked = Assignment.model_validate(request)
        board = board_of(asked.study, asked.directory, asked.terms)
        claim = board.claim(asked.phase, failed_here=asked.failed_here)
        assert claim is not None
        claimed.append(str(claim.key))
        yield {"claimed": str(claim.key), "attempt": claim.attempt}
        raise RuntimeError("no kernel image is available")

    answers(give)
    shared.prepare(study, tmp_path)
    with pytest.raises(MeasurementError, match=r"^3 runs in a row failed on this worker \(dense\.0: no kernel image"):
        shared.work(tmp_path, Terms("a"))
    assert claimed == ["dense.0", "cells-2.0", "cells-1.0"]


def test_an_error_outside_of_a_run_is_told_and_blames_no_run(study, tmp_path, answers):
    answers(raising(StoreError("another kind of machine")))
    shared.prepare(study, tmp_path)
    with pytest.raises(StoreError, match="another kind of machine"):
        shared.work(tmp_path, Terms("a"))
    assert list((tmp_path / LEASES).glob("*.1*")) == []


def test_wrong_directories_are_refused_in_one_line(study, tmp_path, capsys):
    assert "holds no study.toml" in complaint(capsys, "work", tmp_path)
    sweep_of_one = tmp_path / "one"
    sweep_of_one.mkdir()
    (sweep_of_one / "study.toml").write_text(to_toml(Study()))
    (sweep_of_one / "measurements.jsonl").touch()
    assert "so one command measures it: run `trio-profile sweep`" in complaint(capsys, "work", sweep_of_one)
    (tmp_path / "study.toml").write_text(to_toml(Study(verb="flops", retentions=(0.4,)), {"verb", "retentions"}))
    assert "of kind 'flops': workers measure sweep, compare, ablate" in complaint(capsys, "work", tmp_path)
    (tmp_path / "study.toml").write_text(to_toml(Study()))
    assert "worker 'a b': a name has up to 80 letters" in complaint(capsys, "work", tmp_path, "--name", "a b")


def test_the_study_is_written_for_workers_and_no_other_command_measures_it(checkpoint, tmp_path, capsys):
    arguments = ["sweep", "--model", str(checkpoint), "--retention", "0.4", "--out", str(tmp_path / "out")]
    assert run_command([*arguments, "--engine", "workers"]) == 0
    told = capsys.readouterr().out
    assert "holds a study of 10 runs" in told
    assert f"trio-profile work {tmp_path / 'out'}" in told
    assert run_command([*arguments, "--engine", "workers"]) == 0
    capsys.readouterr()
    assert "holds another study: gamma (1.0 there, 2.0 here)" in complaint(
        capsys, *arguments, "--gamma", "2", "--engine", "workers"
    )


def test_a_study_for_workers_is_measured_by_no_other_command(study, tmp_path):
    shared.prepare(study, tmp_path)
    for _ in ("before a worker begins", "and after"):
        with pytest.raises(StoreError, match=r"^workers measure the study in .*: run `trio-profile work "):
            sweep.run(study, tmp_path)
        WorkerFile(tmp_path, "a").open(study, Session(id="s", environment=environment()))
    (tmp_path / "measurements.jsonl").touch()
    with pytest.raises(StoreError, match=r"holds measurements\.jsonl, so one command measures it"):
        WorkerFile(tmp_path, "a").append([], Run(block="dense", number=0, attempt=1, worker="a", session="s"))


def test_a_worker_that_is_told_to_end_gives_its_run_back(study, tmp_path):
    """Slurm and Kubernetes tell it with SIGTERM."""
    shared.prepare(study, tmp_path)
    process = started(tmp_path, "a")
    try:
        wait_for(lambda: holders(tmp_path))
        process.terminate()
        _, complaints = process.communicate(timeout=60)
        assert process.returncode == 130
        assert complaints.splitlines()[-1].endswith(
            "interrupted; what was measured is kept, and the same command goes on"
        )
        assert holders(tmp_path) == set()
    finally:
        process.kill()


def test_two_workers_have_two_names(study, tmp_path):
    shared.prepare(study, tmp_path / "out")

    with (
        lock_file(tmp_path / "out" / ".lock-a", lambda: "taken"),
        pytest.raises(StoreError, match="another worker is called 'a'"),
    ):
        shared.work(tmp_path / "out", Terms("a"))
