import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.places import commit_all
from trio_profile.errors import MeasurementError, ProfileError, StudyError
from trio_profile.kinds.gate.rivals import Worker, keep_on_one_core, rivals, worktree

TOY = """
import gc, os, subprocess, sys, time

def quick(ms=1.0):
    print("a library that talks on standard output")
    return lambda: ms * {ms}

def slow_to_start():
    time.sleep(60)

def hangs():
    return lambda: time.sleep(60)

def crashes():
    return lambda: os.abort()

def leaves():
    return lambda: print("Segmentation of the market", file=sys.stderr) or os._exit(3)

def raises():
    def run():
        raise ValueError("a first line\\na second")
    return run

def nothing():
    return lambda: float("nan")

def collects(log):
    lines = open(log, "a", buffering=1)
    def tell(phase, _):
        if phase == "start":
            time.sleep(0.1)  # a collection that takes long
        print("collection", phase, file=lines)
    gc.callbacks.append(tell)
    return lambda: print("run", file=lines) or 1.0

def fork():
    child = subprocess.Popen(["sleep", "60"])
    run = lambda: 1.0
    run.exact = {{"child": child.pid}}
    return run
"""


def tree(directory: Path, ms: float = 1.0) -> Path:
    directory.mkdir()
    (directory / "toy.py").write_text(TOY.format(ms=ms))
    return directory


@pytest.fixture
def trees(tmp_path):
    return tree(tmp_path / "base"), tree(tmp_path / "new", ms=2.0)


def start(*arguments) -> None:
    """Start a worker, wait until it is ready, and end it."""
    with closing(Worker(*arguments)) as worker:
        worker.ready()


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped by a parent of its own does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_each_worker_imports_from_its_own_tree_and_they_run_in_turn(trees):
    with rivals(*trees, "toy:quick", {"ms": 3.0}) as (workers, sample):
        base, new = sample(5)
        pids = [worker.process.pid for worker in workers]
        assert all(map(alive, pids))
    assert (base, new) == ([3.0] * 5, [6.0] * 5)
    assert not any(map(alive, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a process on a core")
def test_work_of_one_thread_stays_on_one_core_on_both_sides(trees):
    cores = sorted(os.sched_getaffinity(0))
    for seed in range(2):
        with rivals(*trees, "toy:quick", {"ms": 3.0}, seed=seed) as (workers, _):
            for worker in workers:
                assert os.sched_getaffinity(worker.process.pid) == {cores[seed % len(cores)]}
            for worker in workers:
                os.sched_setaffinity(worker.process.pid, cores)
            workers[0].busy_cores = 1.9  # two threads: they need two cores
            keep_on_one_core(workers, seed)
            assert [os.sched_getaffinity(worker.process.pid) for worker in workers] == [set(cores)] * 2


@pytest.mark.slow
def test_no_side_collects_garbage_while_the_other_one_runs(trees, tmp_path):
    log = tmp_path / "log"
    with rivals(*trees, "toy:collects", {"log": str(log)}) as (_, sample):
        sample(3)
    lines = log.read_text().splitlines()
    runs = [number for number, line in enumerate(lines) if line == "run"]
    assert len(runs) == 10  # warm-ups among them
    assert all(lines[number + 1 : number + 3] == ["collection start", "collection stop"] for number in runs)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("toy:crashes", "was killed by SIGABRT"),
        ("toy:leaves", "ended with 3: Segmentation of the market"),
        ("toy:raises", "ValueError: a first line"),
        ("toy:nothing", "returned nan, which is no time"),
        ("toy:missing", "AttributeError: module 'toy' has no attribute 'missing'"),
        ("missing:toy", "ModuleNotFoundError: No module named 'missing'"),
        ("toy", "is not of the form module:function"),
    ],
)
def test_an_error_in_a_worker_is_one_line(trees, workload, says):
    with pytest.raises(MeasurementError, match=r"of the (base|new) revision") as caught, rivals(*trees, workload):
        pass
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_worker_that_hangs_is_ended(trees, monkeypatch):
    monkeypatch.setattr("trio_profile.kinds.gate.rivals.RUN_SECONDS", 0.3)
    with pytest.raises(MeasurementError, match=r"longer than 0\.3 s for one run"), rivals(*trees, "toy:hangs"):
        pass
    monkeypatch.setattr("trio_profile.kinds.gate.rivals.START_SECONDS", 0.3)
    with pytest.raises(MeasurementError, match=r"longer than 0\.3 s to start"):
        start("base", *trees, "toy:slow_to_start", {})


def test_nothing_that_a_worker_started_outlives_it(trees):
    with pytest.raises(KeyboardInterrupt), rivals(*trees, "toy:fork") as (workers, _):
        children = [worker.exact["child"] for worker in workers]
        assert all(map(alive, children))
        raise KeyboardInterrupt
    assert all(map(wait_until_gone, children))


def test_code_from_another_tree_is_refused(trees, tmp_path):
    (tmp_path / "base" / "here.py").write_text("import json\nrun = lambda: (lambda: 1.0)\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(MeasurementError, match="imports nothing from this revision"):
        start("base", elsewhere, trees[1], "statistics:NormalDist", {})
    (trees[0] / "mixed.py").write_text(
        f"import sys\nsys.path.append({str(trees[1])!r})\nimport only\nquick = lambda: (lambda: 1.0)\n"
    )
    (trees[1] / "only.py").write_text("")
    with pytest.raises(MeasurementError, match="only was imported from the other revision"):
        start("base", *trees, "mixed:quick", {})


def test_each_side_imports_a_package_from_the_folder_that_this_process_has_it_from(trees, monkeypatch):
    for place, ms in zip(trees, (1.0, 2.0), strict=True):
        (place / "core" / "inner").mkdir(parents=True)
        (place / "core" / "inner" / "__init__.py").write_text(f"run = lambda: (lambda: {ms})\n")
    monkeypatch.syspath_prepend(trees[1] / "core")
    with rivals(*trees, "inner:run") as (_, sample):
        assert sample(2) == ([1.0, 1.0], [2.0, 2.0])


# A revision of a repository


@pytest.fixture
def repository(tmp_path):
    place = tree(tmp_path / "repository")
    commit_all(place)
    (place / "toy.py").write_text(TOY.format(ms=4.0))
    (place / "later").mkdir()
    return place


def test_a_revision_is_checked_out_beside_the_working_tree(repository):
    with worktree(repository, "HEAD") as base:
        with rivals(base, repository, "toy:quick") as (_, sample):
            assert sample(2) == ([1.0, 1.0], [4.0, 4.0])
        assert not list(base.rglob("__pycache__"))
    assert not base.exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1


def test_a_worktree_is_removed_after_an_error(repository):
    with pytest.raises(ZeroDivisionError), worktree(repository, "HEAD") as base:
        (base / "left.txt").write_text("behind")
        raise ZeroDivisionError
    assert not base.exists()


def test_a_directory_outside_the_revision_or_outside_a_repository_is_refused(repository, tmp_path):
    with pytest.raises(StudyError, match="has no directory later"), worktree(repository / "later", "HEAD"):
        pass
    if not any((parent / ".git").exists() for parent in tmp_path.parents):
        with pytest.raises(ProfileError), worktree(tmp_path, "HEAD"):
            pass
