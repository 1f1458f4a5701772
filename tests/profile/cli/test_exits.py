import errno

import pytest
from torch import OutOfMemoryError

from trio_core.errors import OptionError
from trio_profile.cli import exits, run, verbs
from trio_profile.errors import StoreError


def test_the_traceback_of_a_fault_can_be_asked_for_and_the_code_stays(capsys, monkeypatch):
    monkeypatch.setenv(exits.TRACEBACK, "1")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        assert exits.code_of(error) == 2
    captured = capsys.readouterr().err
    assert "Traceback" in captured and "test_exits.py" in captured
    assert captured.splitlines()[-1].startswith("trio-profile: error: ZeroDivisionError")


class Panic(BaseException):
    """As a library that is written in Rust raises it."""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OptionError("DIR holds\nno study"), "trio-profile: error: DIR holds no study"),
        (RecursionError("too deep"), "RecursionError: too deep; this is a fault"),
        (ZeroDivisionError("division by zero"), "TRIO_PROFILE_TRACEBACK=1 shows where"),
        (MemoryError(), "out of memory"),
        (OutOfMemoryError("CUDA out of memory. Tried to"), "out of memory; choose a smaller model, batch or dtype"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory; choose a smaller model"),
        (RuntimeError("CUDA error: out of memory\nCompile with"), "out of memory; choose a smaller model"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "out of memory; choose a smaller model"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "out of memory; choose a smaller model"),
        (RuntimeError("CUDA driver error: out of memory"), "out of memory; choose a smaller model"),
        (ValueError("not enough memory tokens: 3 of 5"), "this is a fault of trio-profile"),
        (SystemExit(1), "code that is not trio-profile's ended the program"),
        (Panic("index out of range"), "Panic: index out of range"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), "aaa: File name too long"),
        (StoreError("\x1b[31m\u202ered"), "\\x1b[31m\\u202ered"),
    ],
)
def test_no_error_of_a_verb_exits_with_1(error, says, monkeypatch, capsys):
    monkeypatch.delenv(exits.TRACEBACK, raising=False)

    def fail(_):
        raise error

    monkeypatch.setattr(verbs, "run", fail)
    assert run(["methods"]) == 2
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1 and says in captured


def test_an_interruption_mentions_kept_cells_only_if_some_are_kept(capsys):
    assert exits.code_of(KeyboardInterrupt()) == 130
    assert exits.code_of(exits.Interrupted(kept=False)) == 130
    assert capsys.readouterr().err == "trio-profile: interrupted\n" * 2
    assert exits.code_of(exits.Interrupted(kept=True)) == 130
    assert "what was measured is kept, and the same command goes on" in capsys.readouterr().err


def test_an_interruption_while_the_output_is_written_is_one_line(monkeypatch, capsys):
    class Interrupting:
        @property
        def failure(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(exits, "Outputs", Interrupting)
    assert exits.in_this_process(lambda: 0) == 130
    assert capsys.readouterr().err == "trio-profile: interrupted\n"


def test_without_standard_error_nothing_is_said_and_the_code_stays(monkeypatch, capsys):
    monkeypatch.setattr(exits.sys, "stderr", None)
    assert exits.code_of(StoreError("no study")) == 2
    assert capsys.readouterr().out == ""
