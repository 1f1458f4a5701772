"""Forked processes: their answers, their errors, how they end, and which methods they know."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from trio_core.errors import RetentionError, UnknownName
from trio_core.methods.method import registry
from trio_core.methods.random import Random
from trio_core.methods.trio import Trio
from trio_profile.cli import exits
from trio_profile.engine import processes
from trio_profile.engine.processes import Server, answers_of
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.kinds.grid import run as local
from trio_profile.records.schema import Study

TASKS = """
import os, signal, sys, time
import torch
from trio_core.errors import RetentionError, UnknownName

class OfAnotherPackage(RetentionError):
    pass

loaded = []

def load(request):
    if request == "cannot be loaded":
        raise MemoryError()
    loaded.append(os.getpid())

def tell(requests, say):
    for request in requests:
        say([{"pid": os.getpid(), "loaded": list(loaded), "threads": torch.get_num_threads(), "request": request}])

def fail(requests, say):
    raise eval(next(requests))

def die(requests, say):
    say([{"pid": os.getpid()}])
    os.kill(os.getpid(), signal.SIGKILL)

def sleep(requests, say):
    say([{"pid": os.getpid()}])
    time.sleep(100)
"""
"""What the processes of these tests do."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose processes do what TASKS says."""
    directory = tmp_path_factory.mktemp("tasks")
    (directory / "tasks_of_a_test.py").write_text(TASKS)
    start = processes._START.replace(
        "\nserve(", "\nfrom trio_profile.engine import processes\nprocesses.TASKS = 'tasks_of_a_test'\nserve("
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        patch.setattr(processes, "_START", start)
        with Server() as found:
            yield found


def ask(server, task: str, request, load=None) -> list[dict]:
    """Return what a process of its own answers."""
    child = server.fork(load)
    child.ask(task, request)
    return list(answers_of(child))


def test_each_request_has_a_process_of_its_own_that_finds_the_model_loaded(server):
    children = [server.fork("a model") for _ in range(3)]
    pids, answers = set[int](), list[dict]()
    for _ in range(2):
        for number, child in enumerate(children):
            child.ask("tell", {"number": number})
        answers = [answer for child in children for answer in answers_of(child)]
        assert [answer["request"]["number"] for answer in answers] == [0, 1, 2]
        pids |= {answer["pid"] for answer in answers}
    assert len(pids) == 3
    assert all(answer["loaded"][-1] == server._process.pid for answer in answers)


def test_a_process_uses_as_many_threads_as_the_caller_or_as_torch_would(server, monkeypatch):
    torch = sys.modules["torch"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    [answer] = ask(server, "tell", {})
    assert answer["threads"] == 3
    monkeypatch.undo()
    usual = torch.get_num_threads()
    monkeypatch.delitem(sys.modules, "torch")
    [answer] = ask(server, "tell", {})
    assert answer["threads"] in (usual, os.cpu_count(), len(os.sched_getaffinity(0)))


def test_an_error_of_a_process_keeps_its_class_and_its_line(server):
    for error, kind, says in (
        ("UnknownName('method', 'tree', ['trio'])", UnknownName, "unknown method 'tree'; known: trio"),
        ("OfAnotherPackage('too\\nsmall')", RetentionError, "too small"),
        ("MemoryError()", MemoryError, "out of memory; choose a smaller model"),
        ("OSError(28, 'No space left', 'a file')", OSError, "a file: No space left"),
        ("OSError('it is strange')", OSError, "it is strange"),
        ("ZeroDivisionError('by zero')", RuntimeError, "ZeroDivisionError: by zero; this is a fault"),
    ):
        with pytest.raises(kind) as caught:
            ask(server, "fail", error)
        assert type(caught.value) is kind or kind is RuntimeError
        assert exits._message(caught.value).removeprefix("OSError: ").startswith(says)
    with pytest.raises(MemoryError):
        ask(server, "tell", {}, load="cannot be loaded")


def test_a_killed_process_is_named_with_its_signal_and_the_next_one_works(server):
    with pytest.raises(MeasurementError, match=r"was killed by SIGKILL \(often because memory ran out\)"):
        ask(server, "die", {})
    assert len(ask(server, "tell", {})) == 1


@pytest.mark.slow
def test_no_process_outlives_its_caller_and_a_dead_server_is_named(server):
    """One is stopped, and two lose their server first. No later test of this module uses the server."""
    children = [server.fork() for _ in range(3)]
    for child in children:
        child.ask("sleep", {})
    alive = [psutil.Process(child.read()[0]["pid"]) for child in children]
    children[0].stop()
    assert "ended with code 1" in children[0].end()
    assert alive[1].is_running()
    server._process.kill()
    server._process.wait()
    with pytest.raises(MeasurementError, match=r"was killed by SIGKILL"):
        server.fork()
    server.close()
    assert psutil.wait_procs(alive[1:], timeout=60)[1] == []


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("mine.here", r"name it as mine\.here:OfThisTest, or measure in this process \(processes=1"),
        ("__main__", "method 'of_this_test' is defined in the main script"),
    ],
)
def test_a_method_that_only_the_caller_knows_is_refused_before_a_process_starts(
    tiny_study: Study, tmp_path: Path, monkeypatch, module: str, says: str
):
    monkeypatch.setitem(registry, "of_this_test", type("OfThisTest", (Trio,), {"__module__": module}))
    monkeypatch.setattr(local, "ThisMachine", lambda: pytest.fail("a process was started"))
    study = tiny_study.model_copy(update={"processes": 2, "methods": ("of_this_test",)})
    with pytest.raises(StudyError, match=says):
        local.run(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_combination_is_known_if_both_parts_are(tiny_study):
    """A part that is registered in this process only is named by itself, with its path."""

    class Hidden(Random):
        name = "hidden"

    try:
        processes.require_known_methods(tiny_study.model_copy(update={"methods": ("visionzip+trio",)}))
        with pytest.raises(StudyError, match=r"method 'hidden' is registered in this process only: name it as "):
            processes.require_known_methods(tiny_study.model_copy(update={"methods": ("visionzip+hidden",)}))
    finally:
        del registry["hidden"]
