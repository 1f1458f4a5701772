"""Exact quantities of the dense model and of a cell, and what counts as running out of memory."""

from tests.profile.studying import plan
from trio_profile.engine.counting import count, measure_dense
from trio_profile.inputs.workload import build
from trio_profile.records.schema import Cell, Measurement

CELL = Cell(method="trio", retention=0.4)


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
