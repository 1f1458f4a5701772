"""Retention to budgets: the published numbers, the laws, and the errors."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_core import OptionError, RetentionError, Schedule
from trio_core.rules.schedule import DEFAULT_LAYERS, default_layers, retention_of


@st.composite
def questions(draw, most_layers=80, most_tokens=3000):
    """num_layers, layers, visual_tokens and a retention that the layers can reach."""
    num_layers = draw(st.integers(2, most_layers))
    layers = tuple(sorted(draw(st.sets(st.integers(1, num_layers - 1), min_size=1, max_size=5))))
    tokens = draw(st.integers(1, most_tokens))
    lowest = (layers[0] * tokens + num_layers - layers[0]) / (num_layers * tokens)
    retention = draw(st.floats(min(lowest, 1.0), 1.0))
    return num_layers, layers, tokens, retention


def solve(question):
    num_layers, layers, tokens, retention = question
    return Schedule.average(retention=retention, visual_tokens=tokens, num_layers=num_layers, layers=layers)


# --- the published numbers -------------------------------------------------------------------------------------------


def test_an_average_of_64_is_the_published_ladder():
    schedule = Schedule.average(retention=64 / 576, visual_tokens=576, num_layers=32)
    assert schedule.layers == (1, 10, 15)
    assert schedule.budgets == (92, 54, 22)
    assert schedule.layer_average == 64 / 576
    assert schedule.final_layer == 22 / 576


def test_the_published_layers_meet_the_sum():
    for num_layers, retention, tokens in product(DEFAULT_LAYERS, (0.11, 1 / 3, 0.77, 0.99), (576, 2880)):
        schedule = Schedule.average(retention=retention, visual_tokens=tokens, num_layers=num_layers)
        assert sum(schedule.tokens_by_layer) == round(num_layers * retention * tokens), schedule


def test_layers_default_to_the_papers_and_scale_elsewhere():
    assert default_layers(32) == (1, 10, 15)
    assert default_layers(28) == (1, 8, 14)
    assert default_layers(64) == (2, 20, 30)
    for num_layers in range(2, 100):
        layers = default_layers(num_layers)
        assert all(a < b for a, b in pairwise((0, *layers, num_layers)))


# --- laws ------------------------------------------------------------------------------------------------------------


@given(questions())
def test_a_ladder_descends_within_what_is_there(question):
    schedule = solve(question)
    assert all(later <= earlier for earlier, later in pairwise((schedule.visual_tokens, *schedule.budgets)))
    assert schedule.budgets[-1] >= 1
    tokens = schedule.tokens_by_layer
    assert len(tokens) == schedule.num_layers
    assert tokens[: schedule.layers[0]] == (schedule.visual_tokens,) * schedule.layers[0]


@given(questions(most_layers=14, most_tokens=14))
def test_no_ladder_comes_nearer(question):
    schedule, retention = solve(question), question[-1]
    target = round(schedule.num_layers * retention * schedule.visual_tokens)
    sums = {(schedule.layers[0] * schedule.visual_tokens, schedule.visual_tokens)}  # (tokens so far, last budget)
    for earlier, later in pairwise((*schedule.layers, schedule.num_layers)):
        run = later - earlier
        sums = {(total + run * budget, budget) for total, last in sums for budget in range(1, last + 1)}
    nearest = min(abs(total - target) for total, _ in sums)
    assert abs(sum(schedule.tokens_by_layer) - target) == nearest


@given(questions())
def test_the_stated_lowest_retention_works_and_less_does_not(question):
    num_layers, layers, tokens, _ = question
    lowest = layers[0] * tokens + num_layers - layers[0]
    if lowest < 1.5:
        return
    with pytest.raises(RetentionError, match="lowest possible is") as caught:
        solve((num_layers, layers, tokens, (lowest - 0.75) / (num_layers * tokens)))
    stated = float(str(caught.value).rsplit(" ", 1)[1])
    assert solve((num_layers, layers, tokens, stated)).budgets[-1] >= 1


# --- in a proportion of one's own, and shifted -----------------------------------------------------------------------


@pytest.mark.parametrize("proportion", [(), (1, 2, 4), (2, 1, 0), (-1, -2)])
def test_a_proportion_that_is_none_is_refused(proportion):
    with pytest.raises(OptionError, match=r"proportion \(.*\): name positive numbers that never grow") as caught:
        Schedule.average(retention=0.5, visual_tokens=100, proportion=proportion)
    assert "\n" not in str(caught.value)


def test_a_share_of_what_one_stage_leaves():
    """The three meanings of 22.2 % in print, on LLaVA's three stages and on FastV's one."""
    asked = {"retention": 128 / 576, "visual_tokens": 576}
    assert Schedule.keeping(**asked, stage=0).budgets == (128, 75, 31)
    assert Schedule.keeping(**asked, stage=-1).budgets == (535, 314, 128)
    assert Schedule.keeping(**asked, stage=-1, layers=(2,)) == Schedule.keeping(**asked, stage=0, layers=(2,))
    assert Schedule.keeping(**asked, layers=(2,)).budgets == (128,)
    # DART's scripts call that 128; averaged over the layers it is 156.
    assert round(Schedule.keeping(**asked, layers=(2,)).layer_average * 576) == 156
    assert Schedule.keeping(retention=0.001, visual_tokens=576).budgets == (1, 1, 1)
    with pytest.raises(RetentionError):
        Schedule.keeping(retention=1.1, visual_tokens=576)
    with pytest.raises(OptionError, match="proportion"):
        Schedule.keeping(retention=0.5, visual_tokens=576, proportion=(1, 2))


@given(questions())
def test_a_schedule_s_own_shares_give_its_retention_back(question):
    schedule = solve(question)
    kept = [budget / schedule.visual_tokens for budget in schedule.budgets]
    for rule, retention in (
        ("average", schedule.layer_average),
        ("after-prune", kept[0]),
        ("final", schedule.final_layer),
    ):
        assert retention_of(kept, schedule.layers, schedule.num_layers, rule) == pytest.approx(retention)


# --- errors ----------------------------------------------------------------------------------------------------------


def test_layers_that_a_decoder_does_not_have_are_refused():
    for layers in ((), (1, 32), (-1,), (10, 1), (3, 3)):
        with pytest.raises(OptionError, match="layers"):
            Schedule.average(retention=0.5, visual_tokens=576, layers=layers)


def test_budgets_that_are_no_ladder_are_refused():
    for budgets, visual_tokens in (((5,), 10), ((5, 6), 10), ((11, 5), 10), ((5, -1), 10), ((0, 0), 0)):
        with pytest.raises(OptionError, match=r"budgets|visual_tokens"):
            Schedule((1, 3), budgets, visual_tokens, 6)
