"""A sweep: each cell is exact, and nothing is written for a retention that cannot be reached."""

import pytest

from trio_core.errors import RetentionError
from trio_profile.records.store import Store
from trio_profile.studies import sweep


def test_a_sweep_measures_every_cell_exactly(tiny_study, tmp_path):
    contents = sweep.run(tiny_study, tmp_path)
    assert [m.cell.retention for m in contents.measurements] == [0.4, 0.8]
    for measurement in contents.measurements:
        assert measurement.status == "done"
        assert measurement.kv_bytes == measurement.kv_bytes_predicted
        assert measurement.retention.realised == measurement.retention.layer_average
        assert measurement.pairs
        assert measurement.gamma_counted > 0
    assert Store(tmp_path).read().measurements == contents.measurements


def test_an_unreachable_retention_is_refused_before_anything_is_written(tiny_study, tmp_path):
    with pytest.raises(RetentionError):
        sweep.run(tiny_study.model_copy(update={"retentions": (0.5, 0.1)}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
