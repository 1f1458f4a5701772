"""Run cases in this process, through the real entry point, and say what is wrong with how they end."""

import io
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.cases import Case, Corpus, case
from tests.fuzz.mutations import is_json
from trio_profile.cli import run
from trio_profile.errors import StudyError
from trio_profile.study.kind import Kind
from trio_profile.text import printable

SECONDS = 60
"""A case that takes longer hangs."""
WIDTHS = ("1", "0", "-3", "x", "20", "80", "100000")


class Hangs(BaseException):
    """A case takes too long."""


def faults_of(corpus: Corpus, seed: int) -> tuple[Case, int, list[str]]:
    """Run the case of a seed. Return the case, its exit code and what is wrong with how it ended."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        found = case(corpus, seed, Path(place))
        terminal = {"COLUMNS": WIDTHS[seed % 97]} if seed % 97 < len(WIDTHS) else {}
        with patch.dict(os.environ, terminal):
            return found, *ended(found)


def ended(one: Case) -> tuple[int, list[str]]:
    """Run a case. Return its exit code and what is wrong with how it ended."""
    out, err = io.StringIO(), io.StringIO()
    with _alarm(), _no_clock():
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run(one.arguments)
        except BaseException as error:
            return -1, [f"raised {type(error).__name__}: {error}"]
    return code, faults_in(one, code, out.getvalue(), err.getvalue())


def faults_in(one: Case, code: int, out: str, err: str) -> list[str]:
    """What is wrong with how a case ended; empty if nothing is."""
    faults = []
    if code not in (0, 1, 2):
        faults.append(f"exit code {code}")
    if code == 1 and not one.judges:
        faults.append("exit code 1 of a verb that does not judge")
    if "Traceback (most" in out + err:
        faults.append("a traceback")
    if "this is a fault" in err:
        faults.append(err.strip().rpartition("trio-profile: error: ")[2][:300])
    errors = [line for line in err.splitlines() if line.startswith("trio-profile: error:")]
    if len(errors) != (code == 2):
        faults.append(f"exit code {code} with {len(errors)} error lines: {err[-200:]!r}")
    if (said := out + err) != printable(said):
        faults.append("a control character in the terminal")
    if code == 0 and "--json" in one.arguments and "--help" not in one.arguments and not is_json(out):
        faults.append("standard output is not one JSON document")
    return faults


@contextmanager
def _no_clock() -> Iterator[None]:
    """Load models, pictures and questions, and plan the cells, but measure none: a study then takes no time."""
    load = Kind.load

    def loaded(kind: Kind, part: Any) -> Any:
        return _plan if part in ("runner", "preview") and kind.name not in ("flops", "audit") else load(kind, part)

    with patch.object(Kind, "load", loaded):
        yield


def _plan(study: Any, *_: object, **__: object) -> None:
    from trio_profile.engine.plan import resolve

    resolve(study)
    raise StudyError("planned; nothing is measured")


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise Hangs if the body takes longer than SECONDS."""

    def ring(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
