"""The declared cost of a selection, against the plain sum for the simplest method."""

from trio_core import methods
from trio_profile.profilers.declared import SHAPE, VISUAL_TOKENS, selection_cost


def test_random_selection_costs_nothing_and_trio_some_of_a_layer():
    assert selection_cost(methods.find("random")) == (0, 0.0)
    macs, share = selection_cost(methods.find("trio"))
    assert macs > 0 and 0 < share < 3


def test_the_share_is_that_of_one_dense_layer():
    tokens = VISUAL_TOKENS + 60
    layer = 4 * tokens * SHAPE.hidden**2 + 2 * tokens**2 * SHAPE.hidden + 3 * tokens * SHAPE.hidden * SHAPE.intermediate
    macs, share = selection_cost(methods.find("fastv"))
    assert share == macs / layer
