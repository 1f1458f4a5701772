"""The dry run of a study: its cells, their schedule, and the expected time with the reason where there is none."""

import pytest

from tests.profile.reading import blocks, rows, sentences, table
from tests.profile.studying import make
from trio_core.errors import RetentionError
from trio_profile.errors import StudyError
from trio_profile.inputs import models
from trio_profile.kinds.evaluation import suites
from trio_profile.kinds.evaluation.preview import preview_tasks
from trio_profile.records.schema import Study
from trio_profile.report.blocks import Table
from trio_profile.report.preview import report
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


# --- an evaluation ---------------------------------------------------------------------------------------------------


def planned(**fields):
    """The dry run of an evaluation."""
    study = suites.prepare(Study(**{"verb": "eval", "methods": (), "retentions": (), **fields}))
    return preview_tasks(study)


def test_a_suite_is_listed_with_what_its_tasks_need_and_the_cells(without_fvcore):
    found = report(planned(suite="trio:qwen2.5-vl-7b", retentions=(0.2,)))
    assert sentences(found)[1] == "Methods: dart and trio, at 20.0 %."
    assert "1008 × 1008 pixels, which are 1296 tokens. --pixels 1016064,1016064 gives" in sentences(found)[3]
    tasks = {row[0]: row[1:] for row in rows(table(found, "Tasks of lmms-eval"))}
    assert tasks["mme"][:2] == ["MME", "lmms-lab-encoder/MME"] and len(tasks) == 7
    assert "F1 over all questions" in tasks["pope"][2] and tasks["gqa"][2] == ""
    assert [row[0] for row in rows(table(found, "What each cell costs, in MACs"))] == ["dart", "trio"]


def test_a_model_that_cannot_be_reached_leaves_out_what_the_cells_cost(monkeypatch):
    def unreachable(*_):
        raise StudyError("model 'owner/name' cannot be loaded: no network.")

    monkeypatch.setattr("trio_profile.kinds.evaluation.preview.preview", unreachable)
    found = report(planned(model="owner/name", tasks=("pope", "gqa"), dense=False))
    assert sentences(found)[-1].startswith("What they cost is not known: model 'owner/name' cannot be loaded")
    (only,) = blocks(found, Table)
    assert [row[0] for row in rows(only)] == ["pope", "gqa"]
