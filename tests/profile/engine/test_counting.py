"""Exact quantities of the dense model and of a cell, and the tokens that a cell keeps: of a trace made by hand too."""

from dataclasses import replace

import torch

from tests.profile.studying import plan
from trio_core import methods, prune
from trio_core.methods.method import Method
from trio_core.trace import StageTrace, Trace
from trio_profile.engine import counting
from trio_profile.engine.counting import count, kept_in, kept_tokens, measure_dense
from trio_profile.inputs.workload import Workload, build
from trio_profile.records.schema import Measurement, Study


def test_a_cell_has_the_exact_quantities_of_dense_and_of_its_schedule(tiny_study, tiny_workload):
    dense = measure_dense(tiny_workload)
    planned, *_ = plan(tiny_study, tiny_workload.shape)
    cell = Measurement(cell=planned.cell, status="counted", **count(tiny_workload, planned, tiny_study))
    assert cell.retention is not None and cell.counted is not None
    assert cell.kv_bytes is not None and 0 < cell.kv_bytes == cell.kv_bytes_predicted < dense.kv_bytes
    assert dense.kv_bytes == dense.kv_bytes_predicted
    assert cell.budgets == planned.schedule.budgets
    assert cell.retention.realised == cell.retention.layer_average
    assert 0 < cell.counted.selection_flops < cell.counted.torch_flops
    assert cell.gamma_counted is not None and 0 < cell.gamma_counted < 1
    assert cell.launches is not None and dense.launches is not None and cell.launches > dense.launches


def test_a_cell_tells_that_other_code_ran_than_was_asked_for(tiny_study):
    workload = build(tiny_study)
    planned, *_ = plan(tiny_study, workload.shape)
    for layer in workload.adapter.layers:
        layer.self_attn.register_forward_hook(lambda *_: None)
    (note,) = count(workload, planned, tiny_study)["notes"]
    assert note.endswith("self_attn has a forward hook, so a few rows are not enough; 'autograd' ran instead")


def trace_by_hand() -> Trace:
    """Two samples. The first one has six tokens: four stay after layer 1, two after layer 3, where two merged."""
    trace = Trace()
    trace.restart((6, 5), 4, (), tuple)
    scores = torch.tensor([1.0, 5.0, 3.0, 2.0, 4.0, 1.5])
    first = StageTrace(1, 6, 4, (torch.tensor([1, 2, 3, 4]), torch.tensor([0])), lambda: (scores, scores[:5]))
    into = (torch.tensor([-1, 1, 1, 4, 4, -1]), torch.tensor([0, -1, -1, -1, -1]))
    second = StageTrace(3, 4, 2, (torch.tensor([1, 4]), torch.tensor([0])), None, True, lambda: into)
    trace.stages += [first, second]
    return trace


def test_the_first_sample_of_a_trace_by_hand():
    found = kept_in(trace_by_hand())
    assert found.visual_tokens == 6
    first, second = found.stages
    assert (first.layer, second.layer) == (1, 3)
    assert first.mask(6).tolist() == [False, True, True, True, True, False]
    assert list(first.scores) == [0, 254, 127, 64, 190, 32] and (first.low, first.high) == (1.0, 5.0)
    assert not first.merges and first.destinations() is None
    assert second.mask(6).nonzero()[0].tolist() == [1, 4] and second.scores == b""
    assert second.merges and second.destinations().tolist() == [-1, 1, 1, 4, 4, -1]


def test_scores_and_destinations_of_merged_tokens_can_be_left_out():
    stages = kept_in(trace_by_hand(), keep_maps=False).stages
    for stage in stages:
        assert (stage.scores, stage.low, stage.high, stage.merged_into) == (b"", None, None, b"")
    assert [stage.merges for stage in stages] == [False, True]


def traced(workload: Workload, method: Method) -> Trace:
    with prune(workload.model, method) as trace:
        workload.prefill()
    return trace


def test_a_study_s_own_picture_needs_no_further_prefill(tiny_workload, monkeypatch):
    method = methods.find("trio")(retention=0.4)
    trace = traced(tiny_workload, method)
    monkeypatch.setattr(counting, "prune", None)
    found = kept_tokens(tiny_workload, method, trace)
    for stage, own in zip(found.stages, trace.stages, strict=True):
        assert stage.mask(36).nonzero()[0].tolist() == own.kept[0].tolist()
    scores = trace.stages[-1].scores[0]
    steps = torch.tensor(list(found.stages[-1].scores))
    assert torch.equal(steps == 255, scores.isnan())
    low, high = found.stages[-1].low, found.stages[-1].high
    error = (low + steps / 254 * (high - low) - scores)[~scores.isnan()].abs().max()
    assert error <= (high - low) / 254


def test_the_first_question_is_pruned_where_the_study_s_own_picture_is_noise():
    workload = build(Study(text_tokens=60, fidelity_inputs=10))
    method = methods.find("trio")(retention=0.2)
    found = kept_tokens(workload, method, traced(workload, method))
    asked = replace(workload, inputs=workload.inputs_of(0))
    assert found == kept_in(traced(asked, method))
    assert found != kept_in(traced(workload, method))


def test_where_no_grid_is_known_nothing_is_kept(tiny_workload, monkeypatch):
    method = methods.find("grid")(retention=0.4)
    trace = traced(tiny_workload, method)
    monkeypatch.setattr(counting, "lay_out", lambda *_: None)
    assert kept_tokens(tiny_workload, method, trace) is None
