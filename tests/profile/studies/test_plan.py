import pytest

from tests.profile.studying import make, plan
from trio_core.errors import OptionError, RetentionError
from trio_profile.records.schema import Shape

SHAPE = Shape(
    num_layers=32,
    hidden=4096,
    intermediate=11008,
    query_width=4096,
    kv_width=4096,
    heads=32,
    vocabulary=32064,
    ffn_matrices=3,
    itemsize=2,
    batch=1,
    visual_tokens=576,
    text_tokens=60,
)


def test_plan_has_the_published_schedule_and_the_papers_work():
    (cell,) = plan(make(retentions=(64 / 576,), gamma=1), SHAPE)
    assert cell.schedule.budgets == (92, 54, 22)
    assert cell.fastv_overhead_macs(SHAPE, 1) == 116_371_914_752
    assert cell.fastv_macs(SHAPE, 1) == 325_651_333_120 + 116_371_914_752
    assert cell.fastv_macs(SHAPE, 2) == 325_651_333_120 + 2 * 116_371_914_752


def test_a_method_that_needs_nothing_has_no_overhead():
    (cell,) = plan(make(methods=("grid",), retentions=(0.111,)), SHAPE)
    assert cell.fastv_overhead_macs(SHAPE, 5) == 0


def test_a_stage_that_drops_nothing_costs_nothing():
    (cell,) = plan(make(retentions=(0.88,)), SHAPE)
    assert cell.schedule.budgets[0] == 576
    assert len(cell.stage_tokens) == 2
    (full,) = plan(make(retentions=(1.0,)), SHAPE)
    assert full.stage_tokens == ()


def test_a_retention_below_the_lowest_says_what_is_the_lowest():
    with pytest.raises(RetentionError, match=r"lowest possible is 0\.0330"):
        plan(make(retentions=(0.5, 0.02)), SHAPE)


def test_options_go_to_the_methods_that_have_them():
    cells = plan(make(methods=("trio", "random"), retentions=(0.2,), options={"threshold": 0.9, "seed": 3}), SHAPE)
    assert cells[0].method.threshold == 0.9
    assert cells[1].method.seed == 3
    with pytest.raises(OptionError, match="option 'colour' belongs to none of the methods trio"):
        plan(make(options={"colour": 1}), SHAPE)
    with pytest.raises(OptionError, match="give retentions with --retention"):
        plan(make(options={"retention": 0.5}), SHAPE)
