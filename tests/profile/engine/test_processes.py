"""A fresh process: its request, its errors, and the settings that it takes over."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import PYTHONPATH
from trio_core.errors import RetentionError, UnknownName
from trio_core.methods.method import registry
from trio_core.methods.random import Random
from trio_core.methods.trio import Trio
from trio_profile.cli import exits
from trio_profile.errors import StudyError
from trio_profile.records.schema import Study
from trio_profile.records.store import Contents
from trio_profile.studies import fresh, sweep

FAILS = """
import errno, json, sys
from types import SimpleNamespace
sys.path[:] = json.loads(sys.argv[1])
sys.modules["torch"] = SimpleNamespace(get_num_threads=lambda: 1, set_num_threads=lambda threads: None)
from trio_core.errors import RetentionError, UnknownName
from trio_profile.studies import fresh

class OfAnotherPackage(RetentionError):
    pass

def measure(*_, **__):
    raise ERROR

sys.modules["trio_profile.studies.measuring"] = SimpleNamespace(measure=measure)
fresh.answer_request()
"""
"""A fresh process in which the measurement fails. It has stand-ins for torch and `measuring`, which load slowly."""


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ("UnknownName('method', 'tree', ['trio'])", UnknownName, "unknown method 'tree'; known: trio"),
        ("OfAnotherPackage('too\\nsmall')", RetentionError, "too small"),
        ("MemoryError()", MemoryError, "out of memory; choose a smaller model"),
        ("OSError(errno.ENOSPC, 'No space left', 'a file')", OSError, "a file: No space left"),
        ("OSError('it is strange')", OSError, "it is strange"),
        ("ZeroDivisionError('by zero')", RuntimeError, "ZeroDivisionError: by zero; this is a fault"),
    ],
)
def test_an_error_of_the_process_keeps_its_class_and_its_line(error, kind, says, tiny_study, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "_START", FAILS.replace("ERROR", error))
    with pytest.raises(kind) as caught:
        sweep.run(tiny_study.model_copy(update={"processes": 2}), tmp_path / "out")
    assert type(caught.value) is kind
    assert says in exits._message(caught.value)


def test_an_error_of_the_system_keeps_its_number():
    found = fresh._error(fresh._described(FileNotFoundError(errno.ENOENT, "No such file", "x")))
    assert isinstance(found, FileNotFoundError) and found.filename == "x"


def _no_process(*_: object) -> Contents:
    raise AssertionError("a process was started")


@pytest.fixture
def registered_here(monkeypatch) -> str:
    """The name of a method that only this process knows."""
    from trio_core.methods.method import registry

    monkeypatch.setitem(registry, "of_this_test", type("OfThisTest", (Trio,), {"__module__": "mine.here"}))
    return "of_this_test"


def test_a_method_that_only_the_caller_knows_is_refused_before_a_process_starts(
    registered_here, tiny_study: Study, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(fresh, "measure", _no_process)
    study = tiny_study.model_copy(update={"processes": 2, "methods": (registered_here,)})
    with pytest.raises(StudyError, match=r"name it as mine\.here:OfThisTest, or measure in this process \(processes=1"):
        sweep.run(study, tmp_path / "out")


def test_a_method_of_the_main_script_is_refused_with_the_way_out(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "from trio_core.methods.trio import Trio\n"
        "import trio_profile\n"
        "class Mine(Trio):\n"
        "    name = 'mine'\n"
        "try:\n"
        "    trio_profile.sweep(methods=('mine',), processes=2, out='out')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "method 'mine' is defined in the main script" in done.stdout, done.stderr
    assert "processes=1" in done.stdout and not (tmp_path / "out").exists()


def test_methods_of_modules_are_known_to_every_process(tiny_study):
    fresh.require_known_methods(tiny_study.model_copy(update={"methods": ("trio", "trio_core.methods.trio:Trio")}))


def test_a_combination_is_known_if_both_parts_are(tiny_study):
    """A part that is registered in this process only is named by itself, with its path."""

    class Hidden(Random):
        name = "hidden"

    try:
        fresh.require_known_methods(tiny_study.model_copy(update={"methods": ("visionzip+trio",)}))
        with pytest.raises(StudyError, match=r"method 'hidden' is registered in this process only: name it as "):
            fresh.require_known_methods(tiny_study.model_copy(update={"methods": ("visionzip+hidden",)}))
    finally:
        del registry["hidden"]


def test_an_answer_is_one_line_of_json():
    assert "\n" not in json.dumps(fresh._described(ValueError("a\nb")))
