"""Workers: several of them measure one study, some die, and the study is that of one command."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.profile.command import complaint
from trio_profile.cli import run
from trio_profile.errors import MeasurementError, StoreError
from trio_profile.records.contents import Contents
from trio_profile.records.leases import LEASES
from trio_profile.records.schema import Study
from trio_profile.records.store import Store
from trio_profile.studies import running, sweep, work
from trio_profile.studies.work import Terms

CLOCKED = {"session", "timings", "energy", "distinct_ratios"}
"""Fields that are not exact."""
BROKEN = """
import os, time
from trio_core.methods.random import Random

class Broken(Random):
    def select(self, view):
        if os.environ.get("HANG"):
            time.sleep(600)
        raise RuntimeError("this method\\nis broken")
"""


@pytest.fixture(scope="module", autouse=True)
def _quick(without_fvcore):
    """No trace by fvcore."""


@pytest.fixture
def study(tiny_study: Study) -> Study:
    return tiny_study.model_copy(update={"processes": 2, "methods": ("trio", "random"), "fidelity_inputs": 2})


def exact(found: Contents) -> tuple[object, dict[str, object]]:
    """Everything that does not depend on a clock."""
    assert found.dense is not None
    cells = {name: cell.model_dump(exclude=CLOCKED) for name, cell in found.cells.items()}
    return found.dense.model_dump(exclude=CLOCKED), dict(sorted(cells.items()))


def started(directory: Path, name: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trio_profile", "work", str(directory), "--name", name, "--lease", "3"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def wait_for(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def holders(directory: Path) -> set[str]:
    """The workers that hold a lease or held one."""
    leases = [path for path in (directory / LEASES).glob("*.[0-9]") if path.name.rpartition(".")[2].isdecimal()]
    return {path.read_text() for path in leases}


def test_four_workers_of_which_two_are_killed_measure_the_study_of_one_command(study, tmp_path):
    out = tmp_path / "out"
    assert work.prepare(study, out) == 1 + 2 + 2 * 2
    workers = {name: started(out, name) for name in ("a", "b", "c", "d")}
    try:
        wait_for(lambda: {"a", "b"} <= holders(out) or len(holders(out)) >= 2)
        for name in sorted(holders(out))[:2]:
            os.kill(workers.pop(name).pid, signal.SIGKILL)
        for process in workers.values():
            told, complaints = process.communicate(timeout=240)
            assert process.returncode == 0, complaints
            assert "all 7 runs are measured" in told
    finally:
        for process in workers.values():
            process.kill()
    found = Store(out).read()
    assert found.dropped == []
    assert len(found.runs) == 7
    assert all(len(cell.timings) == 2 for cell in found.measurements)
    for cell in found.measurements:
        assert len({timing.session for timing in cell.timings}) == 2
    assert (out / "report.html").is_file()
    assert exact(found) == exact(sweep.run(study, tmp_path / "local"))
    # The command that made the study reads it, and measures nothing again.
    assert sweep.run(study, out).runs == found.runs
    page = running.findings(running.read(out))
    captions = [getattr(block, "caption", "") for page in page.pages for block in page.blocks]
    assert "Which worker measured which block" in captions


def test_a_method_that_raises_is_given_up_with_its_reason(study, tmp_path, monkeypatch):
    (tmp_path / "broken_method.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    work.prepare(study.model_copy(update={"methods": ("broken_method:Broken",), "retentions": (0.4,)}), out)
    found = work.work(out, Terms("a", most_attempts=2))
    (cell,) = found.measurements
    assert cell.status == "failed"
    assert cell.reason == "given up after 2 attempts; the last one, by a: RuntimeError: this method is broken"
    assert [run.attempt for run in found.runs if run.failed] == [3, 3, 3]


def test_a_run_that_hangs_is_ended(study, tmp_path, monkeypatch):
    (tmp_path / "hanging_method.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HANG", "1")
    out = tmp_path / "out"
    work.prepare(study.model_copy(update={"methods": ("hanging_method:Broken",), "retentions": (0.4,)}), out)
    found = work.work(out, Terms("a", most_attempts=1, limit_seconds=4))
    assert [cell.reason for cell in found.measurements] == [
        "given up after 1 attempts; the last one, by a: it took longer than 4 s"
    ]


def test_wrong_directories_are_refused_in_one_line(study, tmp_path, capsys):
    assert "holds no study.toml" in complaint(capsys, "work", tmp_path)
    assert "--engine workers: name the directory" in complaint(capsys, "compare", "--engine", "workers")


def test_two_workers_have_two_names(study, tmp_path):
    work.prepare(study, tmp_path / "out")
    from trio_profile.records.lock import lock_file

    with lock_file(tmp_path / "out" / ".lock-a", lambda: "taken"), pytest.raises(
        StoreError, match="another worker is called 'a'"
    ):
        work.work(tmp_path / "out", Terms("a"))
