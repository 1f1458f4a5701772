"""The dry run of a study: its cells, their schedule, and the expected time with the reason where there is none."""

import pytest

from tests.profile.studying import make
from trio_core.errors import RetentionError
from trio_profile.inputs import models
from trio_profile.study.preview import preview


def on_meta(kind: str = "sweep", **fields):
    """The preview of a study of the 7B model without weights."""
    return preview(make(kind, model="llava-1.5-7b", device="meta", **fields))


def test_cells_have_the_published_schedule_and_without_weights_no_time():
    found = on_meta(retentions=(64 / 576,))
    (cell,) = found.cells
    assert (cell.layers, cell.budgets) == ((1, 10, 15), (92, 54, 22))
    assert cell.fastv_macs > 325_651_333_120  # F_inf, and F_ov beside it
    assert cell.layer_average == pytest.approx(64 / 576)
    assert (found.seconds, found.seconds_reason) == (None, "the meta device runs nothing")
    assert found.shape.visual_tokens == 576


def test_what_a_method_refuses_is_listed_or_refused_as_in_the_study():
    found = on_meta("compare", methods=("pyramiddrop", "trio"), retentions=(0.1,))
    assert [one.cell.variant for one in found.refused] == ["pyramiddrop"]
    assert {cell.variant for cell in found.cells} == {"trio", "random", "downsample"}
    with pytest.raises(RetentionError):
        on_meta("sweep", methods=("pyramiddrop",), retentions=(0.1,))


def test_a_large_model_is_not_loaded_and_its_time_is_not_known(monkeypatch):
    monkeypatch.setattr(models, "_free_host_memory", lambda: 10**12)
    loaded = []
    monkeypatch.setattr(models, "with_large_weights", lambda *_: loaded.append(1))
    found = preview(make(model="llava-1.5-7b", device="cpu", retentions=(0.5,)))
    assert (found.seconds, found.seconds_reason) == (None, "llava-1.5-7b is large, so it is not loaded for a dry run")
    assert len(found.cells) == 1 and loaded == []
