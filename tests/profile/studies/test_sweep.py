import os
import signal
import subprocess
import time

import pytest

from tests import warm
from trio_core.errors import RetentionError
from trio_profile import process
from trio_profile.records.store import Store, to_toml
from trio_profile.studies import sweep


def test_a_sweep_measures_every_cell_exactly(tiny_study, tmp_path):
    contents = sweep.run(tiny_study, tmp_path)
    assert [m.cell.retention for m in contents.measurements] == [0.4, 0.8]
    for measurement in contents.measurements:
        assert measurement.status == "done"
        assert measurement.kv_bytes == measurement.kv_bytes_predicted
        assert measurement.retention.realised == measurement.retention.layer_average
        assert len(measurement.pairs) >= 6
        assert measurement.gamma_counted > 0
    assert Store(tmp_path).read().measurements == contents.measurements


def test_an_unreachable_retention_is_refused_before_anything_is_written(tiny_study, tmp_path):
    with pytest.raises(RetentionError):
        sweep.run(tiny_study.model_copy(update={"retentions": (0.5, 0.1)}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_sweep_loses_at_most_the_cell_that_was_running(tiny_study, tmp_path):
    study = tiny_study.model_copy(
        update={"retentions": (0.4, 0.6, 0.8), "seconds": 0.3, "precision": 1e-6, "processes": 1}
    )
    (tmp_path / "study.toml").write_text(to_toml(study))
    out = tmp_path / "out"
    command = [*warm.program(), "sweep", "--study", tmp_path / "study.toml", "--out", out]
    environment = {**os.environ, **warm.ENVIRONMENT}
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
    store = Store(out)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if store.exists() and store.read().measurements:
            break
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    kept = store.read().measurements
    assert 1 <= len(kept) < 3
    process.prepare()  # as the command does: a study goes on under the same memory and threads alone
    contents = sweep.run(study, out)
    assert contents.measurements[: len(kept)] == kept
    assert len(contents.measurements) == 3
