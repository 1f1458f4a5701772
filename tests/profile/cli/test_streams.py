"""Standard output and standard error of a real process: closed, full, or without the signs that we print."""

import os
import subprocess
import sys
from shlex import quote

import pytest

from tests.core.tiny import fast_first
from tests.places import PYTHONPATH


def shell(line: str, *, program: str = "-m trio_profile", **environment: str) -> tuple[int, str, str]:
    """Run a shell line in which `trio-profile` is the program. Return its exit code and what it printed."""
    line = line.replace("trio-profile", f"{sys.executable} {program}", 1)
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        encoding=environment.get("PYTHONIOENCODING"),
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("redirection", "says"),
    fast_first([("> /dev/full", "No space left on device"), (">&-", "it is closed; `> /dev/null`")], "> /dev/full"),
)
def test_output_that_is_lost_is_one_line_and_exit_2(redirection, says):
    code, _, err = shell(f"trio-profile methods {redirection}")
    assert code == 2
    assert err.startswith("trio-profile: error: standard output cannot be written: ") and says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("place", fast_first(["&-", " /dev/full"], "&-"))
def test_a_closed_or_full_standard_error_does_not_change_the_code(place):
    assert shell(f"trio-profile show nowhere 2>{place}")[0] == 2


def test_a_removed_working_directory_is_one_line_and_exit_2(tmp_path):
    code, out, err = shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && trio-profile env")
    assert (code, out) == (2, "")
    assert err == "trio-profile: error: the working directory was removed; change to another one\n"


def test_an_argument_that_is_not_utf8_is_one_line_and_exit_2():
    code, _, err = shell(r"trio-profile show $'a\xff'")
    assert code == 2 and "'a\\udcff' is not UTF-8" in err and err.count("\n") == 1


FAILS_TO_IMPORT = "-c \"import sys; sys.modules['typer'] = None; from trio_profile.cli import main; main(['env'])\""
THREAD_FAILS = (
    '-c "from threading import Thread; from trio_profile.cli import main, verbs; '
    'verbs.run = lambda _: [thread := Thread(target=lambda: 1 / 0), thread.start(), thread.join(), 0][-1]; main([])"'
)


@pytest.mark.parametrize("program", [FAILS_TO_IMPORT, THREAD_FAILS])
def test_a_fault_at_import_or_in_a_thread_is_one_line_and_exit_2(program):
    code, _, err = shell("trio-profile", program=program)
    assert code == 2
    assert err.startswith("trio-profile: error: ") and err.count("\n") == 1


def python(code: str, redirection: str = "") -> tuple[int, str, str]:
    """Run Python code as the command line is run: with `in_this_process`."""
    start = "import os, subprocess, sys; from trio_profile.cli.exits import in_this_process as run\n"
    return shell(f"trio-profile {redirection}", program=f"-c {quote(start + code)}")


def test_foreign_code_that_closes_standard_output_stops_nothing():
    code = "def verb():\n    sys.stdout.close(); print('still here'); return 1\nsys.exit(run(verb))"
    assert python(code) == (1, "still here\n", "")


def test_a_process_that_is_started_has_the_streams_that_were_closed():
    code = (
        "def verb():\n"
        "    return subprocess.run([sys.executable, '-c', 'import os; os.fstat(0)']).returncode\n"
        "sys.exit(run(verb))"
    )
    assert python(code, "<&-")[0] == 0


def test_a_missing_null_device_is_one_line_and_exit_2():
    code = "os.devnull = '/nowhere'\nsys.exit(run(lambda: 0))"
    status, out, err = python(code, "<&-")
    assert (status, out) == (2, "")
    assert err.startswith("trio-profile: error: /nowhere: No such file") and err.count("\n") == 1
