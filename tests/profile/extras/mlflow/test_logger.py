"""The process that logs. Small modules stand in for `tracking`, so no test here needs MLflow."""

import pytest

from tests.profile.documents import KEPT
from trio_profile.errors import LogError
from trio_profile.extras.mlflow import logger as mlflow_logger
from trio_profile.studies import logs, running
from trio_profile.studies.kinds import KINDS

GOOD = """
import sys
from pathlib import Path
print("a banner")
print("another one", file=sys.stderr)
def check(): ...
def send(entry): return f"{entry.name} with {len(entry.points)} points and {sorted(Path(p).name for p in entry.files)}"
"""


@pytest.fixture
def logger(tmp_path, monkeypatch):
    """A function that writes the module in place of `tracking`."""
    monkeypatch.syspath_prepend(tmp_path)

    monkeypatch.setattr(mlflow_logger, "TRACKING", "my_tracking")
    return (tmp_path / "my_tracking.py").write_text


@pytest.fixture
def kept(tmp_path):
    directory = tmp_path / "kept"
    directory.mkdir()
    KEPT["layers"](directory)
    return directory, running.write_report(directory)


@pytest.mark.slow
def test_what_a_logger_prints_is_not_in_its_answer(logger, kept, capfd):
    logger(GOOD)
    directory, finished = kept
    mlflow_logger.require()
    assert logs.log("mlflow", finished, directory).endswith(" points and ['layers.json', 'report.html']")
    assert capfd.readouterr() == ("", "")


def test_a_failure_says_how_to_log_later(logger, kept):
    logger(GOOD.replace("return", "raise ValueError('no\\nspace left') #"))
    directory, finished = kept
    with pytest.raises(LogError) as raised:
        logs.log("mlflow", finished, directory)
    assert f": no; the study is kept, and `trio-profile report {directory} --log mlflow`" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_library", r"needs the extra 'mlflow' \(No module named 'no_such_library'\)"),
        ("import os\ndef check(): os._exit(9)", "its process ended with exit code 9"),
        ("import time\ndef check(): time.sleep(600)", "no answer in 2 seconds; check its server, or leave --log out"),
    ],
)
def test_a_logger_that_cannot_be_used_is_one_line(text, says, logger, monkeypatch):
    monkeypatch.setattr(mlflow_logger, "CHECK_SECONDS", 2 if "sleep" in text else 120)
    logger(text)
    with pytest.raises(LogError, match=f"--log mlflow:? {says}"):
        mlflow_logger.require()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEPT)
def test_an_entry_of_every_kind_has_its_digest_and_its_files(kind, tmp_path):
    KEPT[kind](tmp_path)
    finished = running.write_report(tmp_path)
    entry = mlflow_logger.entry_of(finished, tmp_path)
    assert {KINDS[kind].file, "report.html"} <= {path.rpartition("/")[2] for path in entry.files}
    assert len(entry.digest) == 64 and entry.params["verb"] == kind
    assert entry.digest == mlflow_logger.entry_of(running.read(tmp_path), tmp_path).digest
    assert all(isinstance(text, str) for text in {**entry.params, **entry.facts}.values())
