"""A study in several processes: what each of them measures, and how the time of the study is divided."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from tests.profile import examples
from trio_core.errors import RetentionError
from trio_profile.errors import MeasurementError
from trio_profile.inputs.host import command_line
from trio_profile.progress import Step
from trio_profile.records.schema import Measurement, Study, Timing, TimingLine
from trio_profile.records.store import Contents, Store, to_toml
from trio_profile.studies import fresh, measuring, sessions, sweep


def timed(cell: Measurement, *seconds: float) -> Measurement:
    """The same cell with the times of several sessions. seconds: measured time of each."""
    timings = tuple(cell.timings[0].model_copy(update={"session": str(n), "seconds": s}) for n, s in enumerate(seconds))
    return cell.model_copy(update={"timings": timings, "status": "done" if timings else "counted"})


def contents(study: Study, *cells: Measurement) -> Contents:
    """A store with these cells. Its first session chose four processes."""
    return Contents(study, sessions=[examples.session(processes=4)], cells={cell.cell.id: cell for cell in cells})


OTHER_THREADS = 2 if torch.get_num_threads() == 1 else 1
"""A number of threads that is not torch's default here."""


@pytest.fixture(scope="module")
def two_processes(tiny_study: Study, tmp_path_factory) -> tuple[Contents, list[Step]]:
    """A small study in two fresh processes, and its steps. The caller uses OTHER_THREADS."""
    steps: list[Step] = []
    study, out = tiny_study.model_copy(update={"processes": 2, "fidelity_inputs": 2}), tmp_path_factory.mktemp("two")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(OTHER_THREADS)
        found = sweep.run(study, out / "out", steps.append)
        assert sweep.run(study, out / "out") == found, "a second call measured again"
    finally:
        torch.set_num_threads(threads)
    return found, steps


def test_one_process_counts_and_each_other_one_times_each_cell(two_processes):
    """A process that has counted and asked questions is slower than a fresh one, so it times nothing."""
    found, _ = two_processes
    counting, *timing = found.sessions
    assert len({session.pid for session in found.sessions} | {os.getpid()}) == 4
    assert {session.processes for session in found.sessions} == {2} and counting.load_seconds > 0
    for cell in found.measurements:
        assert cell.status == "done" and cell.session == counting.id and cell.fidelity is not None
        assert [one.session for one in cell.timings] == [session.id for session in timing]
        assert all(len(one.pairs) >= 3 and one.seconds > 0 for one in cell.timings)


def test_the_processes_use_as_many_threads_as_the_caller(two_processes):
    found, _ = two_processes
    assert [session.environment.cpu_threads for session in found.sessions] == [OTHER_THREADS] * 3


def test_a_session_records_the_command_that_the_user_gave(two_processes):
    found, _ = two_processes
    assert {session.command for session in found.sessions} == {command_line()}


def test_the_steps_name_the_process_and_end_with_everything_measured(two_processes):
    _, steps = two_processes
    said = [step.text for step in steps]
    for text in ("process 1: cell 1 of 2, trio at 0.4: counting", "process 2: warming up"):
        assert text in said
    assert "process 2: cell 1 of 2, trio at 0.4: counting" not in said
    assert said[-1] == "all cells are measured"


def test_the_time_left_falls_over_all_processes(two_processes):
    _, steps = two_processes
    known = [step for step in steps if step.total]
    assert {step.total for step in known} == {known[0].total}
    assert [step.done for step in known] == sorted(step.done for step in known)
    parts = [max(step.done for step in known if step.text.startswith(f"process {n}")) for n in (1, 2, 3)]
    assert parts[0] < parts[1] < parts[2] == pytest.approx(known[0].total, rel=0.2)


def test_an_error_of_the_fresh_process_is_raised_here(tiny_study, tmp_path):
    study = tiny_study.model_copy(update={"processes": 2, "retentions": (0.1,)})
    with pytest.raises(RetentionError, match=r"retention 0\.1 cannot be reached"):
        sweep.run(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_process_is_named_with_its_signal(tiny_study, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "_START", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(MeasurementError, match=r"was killed by SIGKILL \(often because memory ran out\)"):
        sweep.run(tiny_study.model_copy(update={"processes": 2}), tmp_path / "out")


def test_a_killed_study_leaves_no_process_and_goes_on(tiny_study, tmp_path, monkeypatch):
    study = tiny_study.model_copy(update={"processes": 2, "cell_seconds": 0.5, "precision": 1e-6})
    (tmp_path / "study.toml").write_text(to_toml(study))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "trio_profile.cli", "sweep", "--study", str(tmp_path / "study.toml"), "--out", out]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    store, deadline = Store(out), time.monotonic() + 120
    while time.monotonic() < deadline and not (store.exists() and store.read().measurements):
        time.sleep(0.02)
    children = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(children) == 1 and not psutil.wait_procs(children, timeout=20)[1]
    kept = store.read()

    def measure_here(study, directory, command, skip, watch):
        measuring.measure(study, directory, watch, command=command, skip=skip)

    monkeypatch.setattr(fresh, "measure", measure_here)  # how it goes on, not in which process
    monkeypatch.setattr("trio_profile.process._State.keeps_memory", True)  # as in the process that was killed
    found = sweep.run(study, out)
    assert [len(cell.timings) for cell in found.measurements] == [2, 2]
    for cell in kept.measurements:
        assert found.cells[cell.cell.id].timings[: len(cell.timings)] == cell.timings


def test_a_cell_is_finished_after_as_many_sessions_as_the_study_has_processes():
    study = examples.study(retentions=(0.11, 0.22, 0.33, 0.44))
    cells = [examples.measurement("trio", retention) for retention in study.retentions]
    refused = examples.failed("trio", 0.33).model_copy(update={"status": "refused"})
    failed = examples.failed("trio", 0.44)
    found = contents(study, timed(cells[0], 1, 1, 1, 1), timed(cells[1], 1, 1, 1), refused, failed)
    assert [cell.retention for cell in sessions.unfinished(study, found)] == [0.22, 0.44]
    assert [cell.retention for cell in sessions.unfinished(study, found, frozenset({failed.cell.id}))] == [0.22]
    three = study.model_copy(update={"processes": 3})
    assert [cell.retention for cell in sessions.unfinished(three, found)] == [0.44]


@pytest.mark.parametrize(("asked", "load_seconds", "chosen"), [(None, 5, 4), (None, 30, 1), (7, 30, 7), (1, 5, 1)])
def test_a_model_that_loads_slowly_is_measured_in_one_process(asked, load_seconds, chosen, monkeypatch):
    monkeypatch.setattr(sessions, "PROCESSES", 4)
    assert sessions.choose_processes(examples.study(processes=asked), load_seconds) == chosen


def test_the_first_session_gives_all_cells_the_same_share_of_the_time():
    study = examples.study(retentions=(0.11, 0.22), cell_seconds=8.0)
    found = contents(study, timed(examples.measurement("trio", 0.11)))
    assert set(sessions.seconds_by_cell(study, found, study.cells()).values()) == {2.0}


def test_later_sessions_give_more_time_to_the_cell_whose_times_spread_more():
    """Of 16 seconds two cells have used 1 + 3. The other 12 are for three sessions."""
    study = examples.study(retentions=(0.11, 0.22), cell_seconds=8.0)
    narrow, wide = examples.measurement("trio", 0.11, noise=0.005), examples.measurement("trio", 0.22, noise=0.02)
    found = contents(study, timed(narrow, 1.0), timed(wide, 3.0))
    seconds = sessions.seconds_by_cell(study, found, study.cells())
    assert sum(seconds.values()) == pytest.approx(4.0)
    assert 2 < seconds[wide.cell.id] / seconds[narrow.cell.id] <= 4


def test_a_cell_that_failed_is_tried_once_in_each_run(tmp_path, monkeypatch):
    """The first cell fails in the second process. Its times of the first one stay."""
    study = examples.study(retentions=(0.11, 0.22), processes=3)
    first, second = (examples.measurement("trio", retention) for retention in study.retentions)
    skipped: list[frozenset[str]] = []

    def measure(study, directory, command, skip, watch):
        skipped.append(skip)
        store, session = Store(directory), examples.session(id=f"session {len(skipped)}")
        store.open(study, session)
        for cell in (first, second):
            times: Timing = cell.timings[0]
            if len(skipped) == 1:
                counted = {"status": "counted", "timings": (), "session": session.id}
                store.append(cell.model_copy(update=counted))
            if len(skipped) == 2 and cell is first:
                store.append(examples.failed("trio", 0.11).model_copy(update={"session": session.id}))
            elif cell.cell.id not in skip:
                store.append(TimingLine(**{**dict(times), "session": session.id}, cell=cell.cell))

    monkeypatch.setattr(fresh, "measure", measure)
    found = sessions.run(study, tmp_path)
    assert skipped == [frozenset(), frozenset(), frozenset({first.cell.id})]
    assert [len(cell.timings) for cell in found.measurements] == [1, 3]
    assert found.cells[first.cell.id].status == "done" and "memory" in str(found.cells[first.cell.id].reason)


def test_a_cell_that_failed_is_measured_to_its_end_by_the_next_run(tmp_path, monkeypatch):
    study = examples.study(retentions=(0.11,), processes=3)
    cell = examples.measurement("trio", 0.11)
    store = Store(tmp_path)
    store.open(study, examples.session())
    store.append(cell)
    store.append(examples.failed("trio", 0.11))

    def measure(study, directory, command, skip, watch):
        session = examples.session(id=f"session {len(store.read().sessions)}")
        store.open(study, session)
        store.append(TimingLine(**{**dict(cell.timings[0]), "session": session.id}, cell=cell.cell))

    monkeypatch.setattr(fresh, "measure", measure)
    [found] = sessions.run(study, tmp_path).measurements
    assert (found.status, found.reason, len(found.timings)) == ("done", None, 3)


@pytest.mark.parametrize("opens_a_session", [False, True])
def test_a_process_that_measures_nothing_ends_the_study(tmp_path, monkeypatch, opens_a_session):
    study = examples.study(processes=2)
    Store(tmp_path).open(study, examples.session())
    started: list[int] = []

    def measure(*_: object) -> None:
        assert not started, "a second process was started"
        started.append(1)
        if opens_a_session:
            Store(tmp_path).open(study, examples.session(id="another"))

    monkeypatch.setattr(fresh, "measure", measure)
    with pytest.raises(MeasurementError, match="process 2 measured nothing"):
        sessions.run(study, tmp_path)


def test_what_the_user_asks_for_decides_whether_fresh_processes_measure(monkeypatch):
    """A model that loads slowly is measured in one process, and that one is fresh too."""
    monkeypatch.setattr(sessions, "PROCESSES", 4)
    assert [sessions.uses_fresh_processes(examples.study(processes=asked)) for asked in (None, 1, 2)] == [
        True,
        False,
        True,
    ]
