"""Workers: several of them measure one study, some die, and the study is that of one command."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import pytest

from tests.profile.command import complaint
from tests.profile.examples import counted, dense, environment, measurement, rounds_of
from tests.profile.examples import study as example_study
from tests.profile.working import Worker
from trio_profile.cli import run as run_command
from trio_profile.engine import local
from trio_profile.engine import worker as workers
from trio_profile.engine.board import Board, Claim, Terms, board_of
from trio_profile.engine.orders import Order
from trio_profile.engine.processes import Child, Failure
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.progress import ignore
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES, Leases
from trio_profile.records.lock import lock_file
from trio_profile.records.run import DENSE
from trio_profile.records.schema import Session, Study
from trio_profile.records.store import Store, to_toml
from trio_profile.records.workers import Measured, WorkerFile, agree
from trio_profile.studies import shared

pytestmark = pytest.mark.usefixtures("without_fvcore")
CLOCKED = {"session", "timings", "energy", "peak_memory_bytes", "working_memory_bytes"}
"""Fields that are not exact."""


@pytest.fixture
def study(tiny_study: Study) -> Study:
    return tiny_study.model_copy(update={"processes": 2, "methods": ("trio", "random"), "fidelity_inputs": 2})


@pytest.fixture
def broken(study, tmp_path, monkeypatch) -> Callable[..., Path]:
    """Puts a study of a method whose selections run some code into a directory, which it returns."""

    def prepare(fault: str, *others: str) -> Path:
        lines = ["import os, trio_core.methods.random as it", "class Broken(it.Random):", f" def select(*_): {fault}"]
        (tmp_path / "broken_method.py").write_text("\n".join(lines))
        fields = {"methods": ("broken_method:Broken", *others), "retentions": (0.4,), "processes": 1}
        shared.prepare(study.model_copy(update=fields), tmp_path / "out")
        return tmp_path / "out"

    monkeypatch.syspath_prepend(tmp_path)
    return prepare


def assert_same_study(one: Contents, other: Contents) -> None:
    """Compare everything that does not depend on a clock. `make test` gives both one thread (OMP_NUM_THREADS).

    With two, a worker counts with both and a local run with one, and scores differ in their last digit.
    """

    def exact(contents: Contents) -> dict[str, object]:
        records = {"dense": contents.dense, **contents.cells}
        return {name: record and record.model_dump(exclude=CLOCKED) for name, record in records.items()}

    assert exact(one) == exact(other)


def started(directory: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trio_profile", "work", str(directory), "--name", name, "--lease-seconds", "3"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
def test_two_workers_finish_what_two_that_were_killed_began_and_it_is_the_study_of_one_command(study, tmp_path):
    out = tmp_path / "out"
    assert shared.prepare(study, out) == 1 + 1 + 2
    workers: list[subprocess.Popen[str]] = []
    try:
        for name in ("a", "b"):
            workers.append(started(out, name))
            wait_for(lambda name=name: name in holders(out))
            workers.pop().kill()
        workers += [started(out, name) for name in ("c", "d")]
        for process in workers:
            told, complaints = process.communicate(timeout=240)
            assert process.returncode == 0, complaints
            assert told.startswith("4 runs measured\n")
    finally:
        for process in workers:
            process.kill()
    found = Store(out).read()
    assert found.dropped == []
    assert len(found.runs) == 4
    for cell in found.measurements:
        assert len(cell.timings) == 2 == len({timing.session for timing in cell.timings})
    assert (out / "report.html").is_file()
    assert_same_study(found, local.run(study, tmp_path / "local"))
    # The command that made the study reads it, and measures nothing again.
    assert local.run(study, out).runs == found.runs


@pytest.mark.slow
def test_the_last_attempt_measures_all_cells_but_those_whose_method_raises(broken):
    out = broken('raise RuntimeError("this method\\nis broken")', "random")
    found = shared.work(out, Terms(name="a", attempts=2))
    failed, random = sorted(found.measurements, key=lambda cell: cell.cell.method)
    assert (failed.status, failed.reason) == ("failed", "RuntimeError: this method")
    assert (random.status, len(random.timings)) == ("done", 1)
    runs = [(str(run.key), run.attempt, run.failed) for run in found.runs]
    assert runs == [("dense.0", 1, None), ("cells-1.1", 2, None)]


@pytest.mark.slow
def test_a_run_that_ends_its_process_is_given_up_with_its_reason(broken, capsys):
    out = broken("os.abort()")
    assert run_command(["work", str(out), "--trust", "--name", "a", "--attempts", "1"]) == 0
    assert "1 run measured, 1 given up, 1 cell failed" in capsys.readouterr().out
    found = Store(out).read()
    (cell,) = found.measurements
    says = "given up after 1 attempt; the last one, by a: the measuring process was killed by SIGABRT"
    assert cell.status == "failed" and str(cell.reason).startswith(says)
    assert [run.attempt for run in found.runs] == [1, 2]


SESSION = [Session(id="s", environment=environment())]
NO_KERNEL = Failure("RuntimeError", ("no kernel image is available",))
Give = Callable[[Order], Iterable]


@pytest.fixture
def answers(monkeypatch) -> Callable[[Give], None]:
    """Sets what processes answer to a run: a function of the order. They load their model without a fault."""

    class FakeServer(nullcontext):
        def __enter__(self) -> "FakeServer":
            return self

        def fork(self) -> Child:
            mine, other = Pipe()
            threading.Thread(target=self.answer, args=(other,), daemon=True).start()
            return Child(mine, lambda: "it is gone")

        def answer(self, channel: Connection) -> None:
            with suppress(EOFError, OSError):
                while True:
                    _, order = channel.recv()
                    is_run = order.share or order.allowance
                    for answer in FakeServer.give(order) if is_run or not FakeServer.loads else (SESSION, None):
                        channel.send(answer)

    def tell(give: Give, *, loads: bool = True) -> None:
        FakeServer.give, FakeServer.loads = staticmethod(give), loads
        monkeypatch.setattr(workers, "Server", FakeServer)

    return tell


def process(study: Study, directory: Path, limit_seconds: float = 600, **fields) -> workers._Process:
    """A process of worker `a` that counts."""
    terms = Terms(name="a", limit_seconds=limit_seconds)
    file = WorkerFile(directory, "a")
    board = board_of(study, directory, terms)
    return workers._Process(Order(study=study), terms, board, file, "count", {}, ignore, **fields)


def test_a_run_that_hangs_is_ended_and_goes_back(study, tmp_path, answers):
    answers(lambda _: ())
    hung = process(study, tmp_path, 0.1)
    hung.run()
    assert hung.failing == {"dense.0": "it showed no progress for 0.1 s"}
    leases = Leases(tmp_path, "b")
    assert leases.attempts({"dense.0"})["dense.0"].failed
    assert leases.reason("dense.0", 1) == "a: it showed no progress for 0.1 s"


def test_a_process_that_hangs_while_it_loads_is_ended(study, tmp_path, answers):
    answers(lambda _: (), loads=False)
    with pytest.raises(MeasurementError, match=r"^a process could not begin: it showed no progress for 0\.1 s$"):
        process(study, tmp_path, 0.1).run()


def test_ctrl_c_and_a_full_disk_give_the_run_back_and_blame_nobody(study, tmp_path, answers):
    begun: list[Order] = []
    stops = iter([True])
    for error, given in (
        (KeyboardInterrupt, ()),
        (StoreError, [Failure(StoreError, ("cannot write",))]),
        (OSError, [Failure(OSError, (errno.ENOSPC, "No space left on device"))]),
    ):
        answers(lambda order, given=given: begun.append(order) or given)
        with pytest.raises(error):
            process(study, tmp_path, stopped=lambda: bool(begun) and next(stops, False)).run()
        assert begun and Leases(tmp_path, "b").attempts({"dense.0"}) == {}
        begun.clear()


def test_a_worker_on_which_every_run_fails_stops(study, tmp_path, answers, monkeypatch):
    """Its machine may be at fault. It tries three different runs, and the other workers still have attempts."""
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 2)
    answers(lambda _: [NO_KERNEL])
    shared.prepare(study, tmp_path)
    with pytest.raises(MeasurementError, match=r"^3 runs in a row failed on this worker \(dense\.0: no kernel image"):
        shared.work(tmp_path, Terms(name="a"))
    failed = {path.name for path in (tmp_path / LEASES).glob("*.failed")}
    assert failed == {"dense.0.1.failed", "cells-2.0.1.failed", "cells-1.0.1.failed"}


def test_an_error_outside_of_a_run_is_told_and_blames_no_run(study, tmp_path, answers):
    answers(lambda _: [Failure(StoreError, ("another kind of machine",))], loads=False)
    shared.prepare(study, tmp_path)
    with pytest.raises(StoreError, match="another kind of machine"):
        shared.work(tmp_path, Terms(name="a"))
    assert list((tmp_path / LEASES).glob("*.1*")) == []


def test_a_machine_unlike_the_first_one_is_refused(study, tmp_path, answers):
    answers(lambda _: [NO_KERNEL])
    shared.prepare(study, tmp_path)
    agree(tmp_path, Session(id="first", environment=environment(device_name="another GPU")))
    with pytest.raises(StoreError, match=r"another environment: device_name .*; measure on that kind of machine"):
        shared.work(tmp_path, Terms(name="a"))


def test_wrong_directories_are_refused_in_one_line(study, tmp_path, capsys):
    assert "holds no study.toml" in complaint(capsys, "work", tmp_path)
    (tmp_path / "study.toml").write_text(to_toml(Study(verb="flops", retentions=(0.4,)), {"verb", "retentions"}))
    assert "of kind 'flops': workers measure sweep, compare, ablate" in complaint(capsys, "work", tmp_path)
    (tmp_path / "study.toml").write_text(to_toml(Study()))
    assert "worker 'a b': a name has up to 80 letters" in complaint(capsys, "work", tmp_path, "--name", "a b")
    (tmp_path / "measurements.jsonl").touch()
    assert "so one command measures it: run `trio-profile sweep`" in complaint(capsys, "work", tmp_path)


def test_the_study_is_written_for_workers_and_no_other_command_measures_it(checkpoint, tmp_path, capsys):
    arguments = ["sweep", "--model", str(checkpoint), "--retention", "0.4", "--out", str(tmp_path / "out")]
    assert run_command([*arguments, "--engine", "workers"]) == 0
    told = capsys.readouterr().out
    assert "holds a study of 10 runs" in told
    assert f"trio-profile work {tmp_path / 'out'}" in told
    said = complaint(capsys, *arguments, "--gamma", "2", "--engine", "workers")
    assert "holds another study: gamma (1.0 there, 2.0 here)" in said


def test_a_study_for_workers_is_measured_by_no_other_command(study, tmp_path):
    shared.prepare(study, tmp_path)
    for _ in ("before a worker begins", "and after"):
        with pytest.raises(StoreError, match=r"^workers measure the study in .*: run `trio-profile work "):
            local.run(study, tmp_path)
        worker = Worker(tmp_path, "a", study)
    (tmp_path / "measurements.jsonl").touch()
    with pytest.raises(StoreError, match=r"holds measurements\.jsonl, so one command measures it"):
        worker.keep("dense", 0)


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_gives_its_run_back(study, tmp_path):
    """Slurm and Kubernetes tell it with SIGTERM."""
    shared.prepare(study, tmp_path)
    process = started(tmp_path, "a")
    try:
        wait_for(lambda: holders(tmp_path))
        process.terminate()
        _, complaints = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "interrupted; what was measured is kept" in complaints.splitlines()[-1]
        assert holders(tmp_path) == set()
    finally:
        process.kill()


def test_two_workers_have_two_names(study, tmp_path):
    shared.prepare(study, tmp_path)
    taken = lock_file(tmp_path / ".lock-a", lambda: "taken")
    with taken, pytest.raises(StoreError, match="another worker is called 'a'"):
        shared.work(tmp_path, Terms(name="a"))


# --- killed at any line ----------------------------------------------------------------------------------------------

# The workers here are forks that claim runs and keep what they measured, by the code of real workers. They run no
# model, so that a hundred of them can die in seconds.

KILLS = 100
RETENTIONS = tuple(part / 100 for part in range(5, 95))
"""Each is a block of its own here."""
PROCESSES = 3
ASKED = example_study(retentions=RETENTIONS)
LEASE_SECONDS = 0.2
MOST_LINES = 500
"""A worker dies after at most so many lines of code, which are few runs. So all 100 die before the study is
finished."""


def lines_of(claim: Claim, board: Board, session: str) -> list[Measured]:
    """Return what a run would have measured."""
    if claim.key.block == DENSE:
        return [dense().model_copy(update={"session": session})]
    cells = [measurement(cell.method, cell.retention, pairs=3) for cell in board.cells[claim.key.block]]
    lines = map(counted, cells) if claim.key.number == 0 else rounds_of(*cells)
    return [line.model_copy(update={"session": session}) for line in lines]


def die_after(lines: int) -> None:
    """Kill this process after so many lines of Python. So the moment depends on its progress, and on no clock."""
    left = lines

    def count(_frame: object, event: str, _argument: object) -> object:
        nonlocal left
        left -= event == "line"
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)


def toy_worker(directory: Path, name: str, lines: int | None) -> None:
    """Measure runs until none is left.

    lines: after so many lines the worker kills itself; None for never.
    """
    board = Board(ASKED, directory, Leases(directory, name, LEASE_SECONDS), PROCESSES, most_attempts=KILLS)
    board.look()
    if lines is not None:
        die_after(lines)
    while not board.is_finished:
        for phase in ("count", "time"):
            timed, worker = set[str](), Worker(directory, name, ASKED, f"{name}-{phase}-{time.monotonic_ns()}")
            while (claim := board.claim(phase, timed)) is not None:
                lines = lines_of(claim, board, worker.session)
                worker.keep(claim.key.block, claim.key.number, *lines, attempt=claim.attempt)
                board.leases.give_back(str(claim.key), claim.attempt)
                timed.add(claim.key.block)
        time.sleep(0.01)
        board.look()


def forked(directory: Path, name: str, lines: int | None) -> int:
    """Start a toy worker. Return the number of its process."""
    number = os.fork()
    if number == 0:
        try:
            toy_worker(directory, name, lines)
        finally:
            os._exit(0)
    return number


@pytest.mark.slow
def test_workers_that_are_killed_anywhere_lose_and_double_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_profile.records.study.MOST_CELLS", 1)
    draw = random.Random(7)
    names = ("w0", "w1", "w2", "w3")
    doomed = {forked(tmp_path, name, draw.randint(1, MOST_LINES)): name for name in names}
    for _ in range(KILLS):
        victim = draw.choice(list(doomed))
        _, status = os.waitpid(victim, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "all was done before the last kill"
        name = doomed.pop(victim)
        doomed[forked(tmp_path, name, draw.randint(1, MOST_LINES))] = name  # the same name: it goes on with its file
    for number in doomed:
        os.waitpid(number, 0)
    os.waitpid(forked(tmp_path, names[0], None), 0)  # this one measures what is left
    contents = Store(tmp_path).read()
    assert len(contents.runs) == 1 + len(RETENTIONS) * (1 + PROCESSES) == len({run.key for run in contents.runs})
    assert all(run.failed is None for run in contents.runs)
    assert contents.dense is not None and len(contents.cells) == len(RETENTIONS)
    for cell in contents.measurements:
        assert len(cell.timings) == PROCESSES == len({timing.session for timing in cell.timings})
    assert all(", line " in text for text in contents.dropped), "only a line that was cut off is dropped"
