"""Studies as runs of MLflow, in a store in SQLite."""

import csv
import io
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.profile.documents import KEPT
from trio_profile.errors import LogError
from trio_profile.extras.mlflow import logger, tracking
from trio_profile.extras.mlflow.tracking import LONGEST_NAME, metric_names, without_password
from trio_profile.studies import running
from trio_profile.studies.exporting import exported

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
pytestmark = pytest.mark.slow  # MLflow takes seconds to import, and as many to make a store


@pytest.fixture(autouse=True)
def mlflow() -> Any:
    """The package, imported only when a test runs."""
    return needs.package("mlflow", "mlflow")


@pytest.fixture
def store(mlflow, tmp_path, monkeypatch):
    """A client of a store of its own. Artifacts lie beside the store, in the working directory."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # `check` sets it; afterwards it is as before
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    return mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")


@pytest.fixture
def kept(tmp_path):
    """A function that returns a directory with a small study of a kind, and what was read from it."""

    def make(kind: str) -> tuple[Path, running.Finished]:
        directory = tmp_path / f"my-{kind}"
        directory.mkdir()
        KEPT[kind](directory)
        return directory, running.write_report(directory)

    return make


def runs(store, experiment: str = "trio-profile") -> list[Any]:
    return store.search_runs([store.get_experiment_by_name(experiment).experiment_id])


def test_a_run_has_params_tags_metrics_and_files(store, kept):
    directory, finished = kept("compare")
    line = tracking.send(entry := logger.entry_of(finished, directory))
    [run] = runs(store)
    assert len(run.data.metrics) == len({(quantity, curve) for quantity, curve, _, _ in entry.points}) > 0
    assert run.info.run_id in line and "'trio-profile'" in line
    assert (run.info.run_name, run.info.status) == ("compare my-compare", "FINISHED")
    assert run.data.params["methods"] == "trio, random" and run.data.params["retentions"] == "0.11, 0.55"
    assert "image" not in run.data.params and "claimed" not in run.data.params
    assert run.data.tags["device_name"] == "NVIDIA H200" and run.data.tags["torch"]
    names = {file.path for file in store.list_artifacts(run.info.run_id)}
    assert names == {"measurements.jsonl", "study.toml", "report.html"}
    content, _ = exported(directory, "csv")
    rows = [row for row in csv.DictReader(io.StringIO(str(content))) if row["method"] == "trio"]
    for end in ("", "_low", "_high"):
        history = store.get_metric_history(run.info.run_id, f"prefill_speedup{end}/trio")
        expected = {round(1000 * float(row["nominal_retention"])): float(row[f"prefill_speedup{end}"]) for row in rows}
        assert {metric.step: metric.value for metric in history} == expected


def test_a_study_is_logged_once_until_its_content_changes(store, kept, tmp_path):
    directory, finished = kept("sweep")
    first = tracking.send(logger.entry_of(finished, directory))
    moved = directory.rename(tmp_path / "moved")
    again = tracking.send(logger.entry_of(running.write_report_again(moved), moved))
    assert first.replace("is logged", "was logged before,") == again and len(runs(store)) == 1
    with (moved / "measurements.jsonl").open("a") as file:
        file.write("\n")
    tracking.send(logger.entry_of(running.read(moved), moved))
    assert len(runs(store)) == 2


def test_a_run_that_was_not_completed_is_replaced(mlflow, store, kept, monkeypatch):
    directory, finished = kept("flops")
    entry = logger.entry_of(finished, directory)

    def refuse(*_):
        raise ValueError("disk full")

    with monkeypatch.context() as patch, pytest.raises(LogError, match="disk full; check MLFLOW_TRACKING_URI and the"):
        patch.setattr(mlflow.MlflowClient, "log_artifact", refuse)
        tracking.send(entry)
    [broken] = runs(store)
    assert broken.info.status == "FAILED"
    tracking.send(entry)
    [whole] = runs(store)
    assert whole.info.status == "FINISHED" and whole.info.run_id != broken.info.run_id


def test_the_variables_of_mlflow_are_honoured(store, kept, monkeypatch):
    directory, finished = kept("flops")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ours")
    monkeypatch.setenv("MLFLOW_RUN_NAME", "tuesday")
    tracking.send(logger.entry_of(finished, directory))
    [run] = runs(store, "ours")
    assert run.info.run_name == "tuesday"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", store.create_experiment("by-id"))
    tracking.send(logger.entry_of(finished, directory))
    assert len(runs(store, "by-id")) == 1


def test_a_check_makes_no_experiment_and_names_a_deleted_one(store):
    tracking.check()
    assert store.get_experiment_by_name("trio-profile") is None
    store.delete_experiment(store.create_experiment("trio-profile"))
    with pytest.raises(LogError, match="experiment 'trio-profile' is deleted: restore it, or set MLFLOW_EXPERIMENT_N"):
        tracking.check()


def test_an_unreachable_server_is_one_line_without_the_password(store, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@{address}")
    with pytest.raises(LogError) as raised:
        tracking.check()
    line = str(raised.value)
    assert "secret" not in line and "\n" not in line and address in line
    assert line.endswith("; check MLFLOW_TRACKING_URI and the server")
    assert without_password("at postgresql://u:p@w@host/db") == "at postgresql://host/db"


def test_metrics_have_names_that_mlflow_takes_and_that_differ():
    from mlflow.utils.validation import _validate_metric_name

    curves = ["", "visionzip+trio", "sparsevlm+", "trio k_pos = 1", "my.module:Mine", "a/b", "a b", "ÄÖ"]
    asked = [("prefill_speedup", curve) for curve in [*curves, "x" * 300, "x" * 301]]
    asked.append(("accuracy_by_kind.what? where/when", "trio"))
    names = metric_names(asked)
    assert len({name.lower() for name in names.values()}) == len(asked)
    for name in names.values():
        _validate_metric_name(name)
        assert len(name) <= LONGEST_NAME
    assert names["prefill_speedup", "visionzip+trio"] == "prefill_speedup/visionzip plus trio"
    assert names["prefill_speedup", "sparsevlm+"] == "prefill_speedup/sparsevlm plus"
    assert names["prefill_speedup", "my.module:Mine"] == "prefill_speedup/my.module Mine"
    assert names["prefill_speedup", ""] == "prefill_speedup"
    assert names["prefill_speedup", "a b"] == "prefill_speedup/a b 2"
