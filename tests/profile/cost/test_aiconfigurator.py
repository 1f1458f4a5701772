"""NVIDIA's tables, where the extra `predict` is installed; the nightly job installs it."""

import sys

import pytest

from tests.needs import package
from trio_profile.cost.aiconfigurator import tables
from trio_profile.errors import StudyError


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiconfigurator_core", None)
    with pytest.raises(StudyError, match="predict needs the extra 'predict'"):
        tables("h100")


def test_each_engine_has_times_of_a_gpu():
    package("aiconfigurator_core", "predict")
    for table in (*tables("a100"), *tables("NVIDIA-H100")):
        assert 0.05 < table.gemm(636, 12288, 4096)[0] < 0.5 and table.attention(636, 32, 32, 128, 1).sum() > 0
        assert (table.encoder(577, 16, 64, 1)[2] > 0) == (table.gpu == "a100_sxm") and table.exchange(4096, 4).sum() > 0
    for gpu, engine, says in (
        ("l4", None, "GPU 'l4' has no table"),
        ("", None, "give --gpu; there are"),
        ("h100", "tgi", "engine 'tgi' has no table"),
    ):
        with pytest.raises(StudyError, match=says):
            tables(gpu, engine)
