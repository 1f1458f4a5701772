"""`--log mlflow`: what is logged of a study, and the process that logs it.

`tracking.py` runs in a process of its own. So MLflow does not change the process that measures, and what it prints does
not get into our output.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from trio_profile.errors import LogError
from trio_profile.extras.mlflow.points import points_of
from trio_profile.installation import missing_extra
from trio_profile.records.files import STUDY
from trio_profile.records.workers import worker_files
from trio_profile.studies.asked import fields_of
from trio_profile.studies.running import Finished
from trio_profile.text import first_line

TRACKING = "trio_profile.extras.mlflow.tracking"
"""The module that runs in the process. It has `check()` and `send(entry)`."""
CHECK_SECONDS = 60
"""A server that has not answered `check` after this time counts as unreachable."""
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from trio_profile.extras.mlflow.logger import answer_request
answer_request()
"""


@dataclass(frozen=True)
class Entry:
    """One study as it is logged.

    name: the kind, and the name of the directory: `sweep pocket`.
    digest: of the file that holds the measurements or the document. A study with the same content has the same one.
    started: when it was begun, in seconds since 1970; None if the document does not say it.
    params: what was asked, by the fields of Study.
    facts: the machine and the versions.
    points: each number as (quantity, curve, step, value); see `points.Point`.
    files: paths of the files that are kept with it.
    """

    name: str
    digest: str
    started: float | None
    params: dict[str, str]
    facts: dict[str, str]
    points: list[tuple[str, str, int, float]]
    files: list[str]


def require() -> None:
    """Raise LogError unless a study can be logged now. Call this before anything is measured."""
    try:
        _ask("check", timeout=CHECK_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LogError(
            f"--log mlflow: no answer in {CHECK_SECONDS} seconds; check its server, or leave --log out"
        ) from error


def log(finished: Finished, directory: Path) -> str:
    """Log the study of a directory, and return one line about it. Raises LogError if it cannot be logged."""
    return _ask("send", entry_of(finished, directory))


def entry_of(finished: Finished, directory: Path) -> Entry:
    """Return what is logged of a study. Raises OSError if its file cannot be read."""
    document, kind = finished.document, finished.kind
    measured = [directory / kind.file] if (directory / kind.file).exists() else worker_files(directory)
    started = document.sessions[0].started if document.sessions else None
    report = [Path(document.report)] if document.report else []
    files = [directory / STUDY, *measured, *report]
    return Entry(
        name=f"{kind.name} {directory.resolve().name}",
        digest=_digest(measured),
        started=None if started is None else started.timestamp(),
        params=_params(finished),
        facts=_facts(document),
        points=[(point.quantity, point.curve, point.step, point.value) for point in points_of(document, kind.rows)],
        files=[str(path.resolve()) for path in files if path.is_file()],
    )


def _digest(files: Sequence[Path]) -> str:
    """The SHA-256 of a file; of several files, that of their digests."""
    digests: list[str] = []
    for path in files:
        with path.open("rb") as file:
            digests.append(file_digest(file, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode()).hexdigest()


def _params(finished: Finished) -> dict[str, str]:
    """The fields of the study that its kind takes and that say something."""
    study, known = getattr(finished.document, "study", None), fields_of(finished.kind)
    if study is None:
        return {"verb": finished.kind.name}
    fields = {**study.model_dump(mode="json"), "verb": finished.kind.name}
    return {name: _text(value) for name, value in fields.items() if name in known and value not in (None, [], {}, "")}


def _text(value: Any) -> str:
    """A field as text. Lists become `trio, fastv`."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _facts(document: Any) -> dict[str, str]:
    """The machine and the versions of the first session."""
    session = document.sessions[0] if document.sessions else None
    facts = {"format": f"{document.format} {document.version}"}
    if session is None:
        return facts
    environment = session.environment
    names = (
        "hostname",
        "system",
        "device_name",
        "cuda",
        "driver",
        "python",
        "torch",
        "transformers",
        "fvcore",
        "commit",
    )
    facts |= {name: str(getattr(environment, name)) for name in names if getattr(environment, name)}
    return facts | ({"trio_profile": session.version} if session.version else {})


# --- a process of its own ---------------------------------------------------------------------------------------------


def _ask(function: str, entry: Entry | None = None, timeout: float | None = None) -> str:
    """Call a function of TRACKING in a process of its own, and return its answer.

    Raises LogError if the function raises, or if the process is killed. Raises TimeoutExpired.
    """
    request = {"module": TRACKING, "function": function, "entry": None if entry is None else asdict(entry)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _START, json.dumps(sys.path)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise LogError(f"--log mlflow: its process ended with exit code {done.returncode}") from error
    if "missing" in answer:
        raise LogError(missing_extra("--log mlflow", "mlflow", answer["missing"]))
    if "error" in answer:
        raise LogError(f"--log mlflow: {answer['error']}")
    return answer["done"]


def answer_request() -> None:
    """Answer one request on standard input with one line of JSON on standard output. Whatever else is printed is lost.

    The answer has `done`, `error`, or `missing` if a library is not installed.
    """
    output = os.dup(1)
    os.dup2(2, 1)  # libraries print to standard output too
    request = json.load(sys.stdin)
    with os.fdopen(output, "w", encoding="utf-8") as answer:
        json.dump(_answered(request), answer)


def _answered(request: dict[str, Any]) -> dict[str, str]:
    try:
        function: Callable[..., str | None] = getattr(import_module(request["module"]), request["function"])
        entry = request["entry"]
        return {"done": (function() if entry is None else function(Entry(**entry))) or ""}
    except ImportError as error:
        return {"missing": first_line(error)}
    except Exception as error:  # of foreign libraries
        return {"error": first_line(error)}
