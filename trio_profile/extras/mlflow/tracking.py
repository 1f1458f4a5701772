"""Log a study as one run of MLflow. `logger.py` calls this in a process of its own.

MLflow reads its own variables: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_ID, MLFLOW_EXPERIMENT_NAME, MLFLOW_RUN_NAME, and
those of its accounts.
"""

import getpass
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from trio_profile.errors import LogError
from trio_profile.extras.mlflow.logger import Entry
from trio_profile.text import first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import RunInfo

EXPERIMENT = "trio-profile"
"""The experiment, unless MLFLOW_EXPERIMENT_ID or MLFLOW_EXPERIMENT_NAME names another one."""
DIGEST = "trio_profile.digest"
"""The tag by which a study that was logged before is found."""
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
"""How often MLflow repeats a request. Each wait is twice as long. Its own default is 7: four minutes without a word."""
MOST_METRICS, MOST_OTHERS = 1000, 100
"""MLflow takes at most so many metrics, and so many params or tags, in one request."""
LONGEST_NAME = 250
"""In characters, of a metric's name."""
_PASSWORD = re.compile(r"(?<=://)[^/\s]*@")
_T = TypeVar("_T")


def check() -> None:
    """Raise LogError if the tracking store cannot be used."""
    os.environ[RETRIES] = "1"
    client_class = _import()
    with _one_line_errors():
        client = client_class()
        experiment = _experiment(client)
        if experiment is None:
            client.search_experiments(max_results=1)
        elif experiment.lifecycle_stage != "active":
            raise LogError(f"the experiment {experiment.name!r} is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME")


def send(entry: Entry) -> str:
    """Log a study and return where it is. If it was logged before, the run stays as it is.

    The run has the digest of the study's content as a tag. A run with the same digest that was not completed is
    replaced.
    """
    os.environ.setdefault(RETRIES, "4")
    client_class = _import()
    with _one_line_errors():
        client = client_class()
        experiment = _experiment(client)
        id = client.create_experiment(_name()) if experiment is None else experiment.experiment_id
        name = _name() if experiment is None else experiment.name
        for run in client.search_runs([id], f"tags.`{DIGEST}` = '{entry.digest}'"):
            if run.info.status == "FINISHED":
                return _line(client, run.info, name, "was logged before, as")
            client.delete_run(run.info.run_id)
        return _line(client, _new_run(client, id, entry), name, "is logged as")


def metric_names(curves: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the metric's name for each (quantity, curve): `prefill_speedup/trio`. All names are different.

    MLflow takes letters, digits, `_`, `-`, `.`, spaces and slashes. Of the text before the slash its page makes a
    section, with a chart for each curve.
    """
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for quantity, curve in dict.fromkeys(curves):
        whole = _plain(quantity) + (f"/{_plain(curve)}" if curve else "")
        name, number = whole[:LONGEST_NAME].rstrip(" ."), 1
        while name.lower() in taken:  # some databases do not tell letters by their case
            number += 1
            name = f"{whole[: LONGEST_NAME - 8]} {number}"
        taken.add(name.lower())
        names[quantity, curve] = name
    return names


def _plain(text: str) -> str:
    """A text as a part of a metric's name: `visionzip plus trio`, `trio k_pos 1`."""
    return re.sub(r"[^\w.\-]+", " ", text.replace("+", " plus ")).strip(" .") or "unnamed"


def _new_run(client: "MlflowClient", experiment: str, entry: Entry) -> "RunInfo":
    """Make a run with everything that is logged, and return it as MLflow describes it. After an error it has failed."""
    begun = None if entry.started is None else int(1000 * entry.started)
    name = os.environ.get("MLFLOW_RUN_NAME") or entry.name
    run = client.create_run(experiment, start_time=begun, run_name=name, tags={DIGEST: entry.digest, **_origin(entry)})
    id = run.info.run_id
    try:
        _fill(client, id, entry)
    except BaseException:
        os.environ[RETRIES] = "0"
        with suppress(Exception):
            client.set_terminated(id, "FAILED")
        raise
    client.set_terminated(id, "FINISHED")
    return run.info


def _fill(client: "MlflowClient", run: str, entry: Entry) -> None:
    """Log the params, the tags, the metrics and the files of a study."""
    from mlflow.entities import Metric, Param, RunTag

    names = metric_names([(quantity, curve) for quantity, curve, _, _ in entry.points])
    now = int(1000 * time.time())
    metrics = [Metric(names[quantity, curve], value, now, step) for quantity, curve, step, value in entry.points]
    for params in _parts([Param(name, text) for name, text in entry.params.items()], MOST_OTHERS):
        client.log_batch(run, params=params)
    for tags in _parts([RunTag(name, text) for name, text in entry.facts.items()], MOST_OTHERS):
        client.log_batch(run, tags=tags)
    for some in _parts(metrics, MOST_METRICS):
        client.log_batch(run, metrics=some)
    for path in entry.files:
        client.log_artifact(run, path)


def _parts(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _origin(entry: Entry) -> dict[str, str]:
    """MLflow's own tags about who logged, and with what."""
    tags = {
        "mlflow.source.name": f"trio-profile {entry.params.get('verb', '')}".strip(),
        "mlflow.source.type": "LOCAL",
    }
    with suppress(Exception):  # a container may have no name for its user
        tags["mlflow.user"] = getpass.getuser()
    return tags


def _import() -> "type[MlflowClient]":
    """Import MLflow; its usage statistics are off, unless the user has set MLFLOW_DISABLE_TELEMETRY.

    Raises ImportError if the extra is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient


def _name() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT


def _experiment(client: "MlflowClient") -> Any:
    """The experiment; None if it must be made. Raises MlflowException for an id that does not exist."""
    if id := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return client.get_experiment(id)
    return client.get_experiment_by_name(_name())


def _line(client: "MlflowClient", run: "RunInfo", experiment: str, verb: str) -> str:
    """One line that says where a run is. Of a server it has the address of the run's page."""
    where = without_password(client.tracking_uri)
    if where.startswith("http"):
        where = f"{where.rstrip('/')}/#/experiments/{run.experiment_id}/runs/{run.run_id}"
    return f"mlflow: the study {verb} run {run.run_id} of the experiment {experiment!r}: {where}"


def without_password(text: str) -> str:
    """The text without the user and the password of an address: `https://me:secret@host` is `https://host`."""
    return _PASSWORD.sub("", text)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn an error of MLflow into a LogError without passwords. A missing driver of a database is one of them."""
    try:
        yield
    except LogError:
        raise
    except Exception as error:
        message = without_password(first_line(error)).rstrip(".")
        raise LogError(f"{message}; check MLFLOW_TRACKING_URI and the server") from error
