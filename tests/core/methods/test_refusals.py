"""Options, schedules and arguments that have no meaning: refused in one line that names the thing and its value."""

from typing import Any

import pytest
import torch

from tests.core.methods.test_methods import BUILT_IN
from trio_core import OptionError, RetentionError, methods
from trio_core.methods import dart, downsample, grid, holov, pact, prumerge, prunevid, sparsevlm, tome, vispruner
from trio_core.methods.method import Stage
from trio_core.rules.schedule import Schedule

NAN, INF = float("nan"), float("inf")


def refused(make: Any, *words: str, error: type[Exception] = OptionError) -> None:
    """`make()` raises the error, whose message has one line and these words."""
    with pytest.raises(error) as caught:
        make()
    said = str(caught.value)
    assert "\n" not in said
    assert all(word in said for word in words), said


# --- options ---------------------------------------------------------------------------------------------------------

VALUES = {
    ("trio", "retention"): (0.0, -1.0, 1.5, NAN),
    ("trio", "budgets"): ((3,),),
    ("trio", "layers"): ((0, 2),),
    ("trio", "positions"): ("shuffled",),
    ("trio", "k_pos"): (0,),
    ("trio", "threshold"): (-1.0, 1.1, NAN),
    ("trio", "probe"): ("previous",),
    ("trio", "rows"): ("first",),
    ("trio", "saliency"): ("magic",),
    ("trio", "tokens"): ("text",),
    ("trio", "schedule_rule"): ("cheap",),
    ("cdpruner", "relevance"): ("magic", "clip"),
    ("dart", "pivots_visual"): (0,),
    ("dart", "pivots_text"): (0,),
    ("divprune+fastv", "retention"): (2.0,),
    ("divprune+fastv", "layers"): ((0,), (1, 0)),
    ("fitprune", "layers"): ((0, 2),),
    ("grid", "shape"): ("round",),
    ("holov", "chunks"): (0,),
    ("holov", "diversity"): (-0.1, NAN),
    ("lookahead", "k_pos"): (0,),
    ("lookahead", "threshold"): (1.5,),
    ("lookahead", "rows"): ("first",),
    ("pact", "share"): (0.0, -1.0, 1.5, NAN),
    ("prunevid", "layers"): ((1, 2),),
    ("scope", "alpha"): (-0.5, NAN, INF),
    ("sparsevlm", "version"): ("v3",),
    ("topv", "features"): (-1.0,),
    ("topv", "places"): (NAN,),
    ("topv", "centre"): (INF,),
    ("topv", "temperature"): (0.0, NAN),
    ("topv", "iterations"): (0,),
    ("topv", "recovered"): (1.0, -0.1),
    ("trio-ve", "tokens"): ("all",),
    ("trio-ve", "alpha"): (-1.0,),
    ("trio-ve", "k_pos"): (0,),
    ("trio-ve", "threshold"): (2.0,),
    ("trio-ve", "layers"): ((3, 5),),
    ("trio-ve", "encoder"): ("trio", "no_such"),
    ("visionzip", "contextual_share"): (-0.1, 1.0, NAN),
    ("vispruner", "important"): (-0.1, 1.1, NAN),
    ("vtw", "layers"): ((3, 4), (0,)),
    ("vtw", "budget_rule"): ("final", "after-prune"),
}
"""(method, option) → values that it refuses when it is made, or when its schedule is."""


@pytest.mark.parametrize(("name", "option"), VALUES)
def test_a_value_without_a_meaning_is_refused_with_its_option(name, option, request):
    for value in VALUES[name, option]:
        if isinstance(value, str) and request.config.getoption("--shapes"):
            continue  # the shape check refuses the type before we see the value
        options = ({"retention": 0.5} if option != "budgets" else {}) | {option: value}
        error = RetentionError if option == "retention" else OptionError
        shown = repr(value) if isinstance(value, str) else str(value)
        named = () if option == "encoder" else (option,)
        refused(lambda options=options: methods.find(name)(**options).schedule(576, 32), *named, shown, error=error)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        *((name, {}, ("retention", "budgets")) for name in ("trio", "vtw", "divprune+fastv")),
        ("trio", {"retention": 0.5, "budgets": (3,), "layers": (1,)}, ("retention", "budgets")),
        ("trio", {"retention": 0.5, "layers": (2, 40)}, ("layers (2, 40)",)),
        ("trio", {"retention": 0.5, "layers": (4, 2)}, ("layers (4, 2)", "ascend")),
        ("trio", {"retention": 0.5, "layers": ()}, ("layers ()",)),
        ("trio", {"budgets": (5, 6), "layers": (1, 3)}, ("budgets (5, 6)",)),
        ("trio", {"budgets": (5,), "layers": (1, 3)}, ("budgets (5,)", "layers (1, 3)")),
        ("trio", {"budgets": (20, 0), "layers": (1, 3)}, ("budgets (20, 0)", "at least 1")),
        ("trio", {"retention": 0.5, "schedule_rule": "paying", "layers": (1, 10)}, ("layers (1, 10)",)),
        ("trio", {"budgets": (5,), "schedule_rule": "paying", "layers": (1,)}, ("layers (1,)",)),
        ("trio", {"retention": 0.5, "schedule_rule": "paying", "budget_rule": "final"}, ("budget_rule 'final'",)),
        ("trio-ve", {"retention": 0.5, "schedule_rule": "paying"}, ("begins in the encoder",)),
        ("visionzip+trio", {"retention": 0.5, "schedule_rule": "paying"}, ("begins in the encoder",)),
        ("cdpruner", {"retention": 0.5, "relevance": "clip", "clip": "."}, ("question",)),
        ("cdpruner", {"retention": 0.5, "relevance": "clip", "clip": "no/such", "question": "who"}, ("'no/such'",)),
        ("cdpruner", {"retention": 0.5, "question": "who"}, ("question", "relevance 'clip'")),
        ("cdpruner", {"retention": 0.5, "clip": "."}, ("clip", "relevance 'clip'")),
        ("vtw", {"budgets": (64,), "layers": (3,)}, ("budgets (64,)", "give retention")),
        ("vtw", {"budgets": (0,), "layers": (3,)}, ("budgets (0,)",)),
        ("vtw", {"retention": 0.5, "layers": (32,)}, ("layers (32,)",)),
        ("divprune+fastv", {"retention": 0.3, "encoder_retention": 0.2}, ("0.2", "retention 0.3")),
        ("divprune+fastv", {"retention": 0.3, "encoder_retention": 0.0}, ("encoder_retention 0.0",)),
        ("divprune+fastv", {"retention": 0.01, "encoder_retention": 1.0}, ("fastv", "lower encoder_ret")),
        ("divprune+fastv", {"budgets": (9,), "layers": (0,)}, ("before the decoder",)),
        ("divprune+fastv", {"budgets": (9, 5), "layers": (1, 2)}, ("before the decoder",)),
        (
            "divprune+fastv",
            {"budgets": (9, 5), "layers": (0, 2), "encoder_retention": 0.5},
            ("encoder_retention", "budgets"),
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(name, options, words):
    with pytest.raises((OptionError, RetentionError)) as caught:
        methods.find(name)(**options).schedule(576, 32)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_place_is_for_the_methods_that_act_there(name):
    method = methods.find(name)
    layers = (0,) if method.stage is Stage.DECODER else (2,)
    refused(lambda: method(retention=0.5, layers=layers), f"{name}: layers")


@pytest.mark.parametrize("name", ["fitprune", "vtw", "trio"])
def test_a_decoder_of_one_layer_and_a_prompt_without_a_picture_have_no_schedule(name):
    refused(lambda: methods.find(name)(retention=0.5).schedule(576, 1), "num_layers 1")
    if name != "vtw":
        refused(lambda: methods.find(name)(retention=0.5).schedule(0, 8), "visual_tokens 0")


@pytest.mark.parametrize(("name", "retention"), [("pyramiddrop", 0.25), ("sparsevlm", 0.09), ("fitprune", 0.01)])
def test_the_lowest_retention_that_a_refusal_states_works(name, retention):
    with pytest.raises(RetentionError, match=r"^[^\n]+$") as caught:
        methods.find(name)(retention=retention).schedule(576, 32)
    stated = float(str(caught.value).rsplit(" ", 1)[1])
    assert methods.find(name)(retention=stated).schedule(576, 32).budgets[-1] >= 1


def test_methods_that_do_not_combine_are_refused():
    for name, wrong in (
        ("visionzip+scope", "'scope'"),
        ("trio+fastv", "'trio'"),
        ("visionzip+tiro", "'tiro'"),
        ("visionzip+trio+fastv", "combine two"),
        ("+trio", "combine two"),
        ("visionzip+", "combine two"),
        ("prunevid+trio", "'prunevid'"),
        ("no_such_package:Thing+trio", "'no_such_package:Thing'"),
    ):
        refused(lambda name=name: methods.find(name), wrong)


# --- arguments of the rules ------------------------------------------------------------------------------------------

GOOD = torch.rand(6, 3)
BROKEN = GOOD.index_fill(0, torch.arange(6), torch.inf)


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        (lambda k: dart.least_duplicated(GOOD, GOOD, GOOD[:2], GOOD[:2], k), (7,)),
        (lambda k: downsample.grid_cells(2, 3, k), (0, 7)),
        (lambda k: grid.centres(2, 3, k), (0, 7)),
        (lambda k: holov.holov(GOOD[:, 0], GOOD[:, 0], k), (7,)),
        (lambda k: pact.dbdpc(GOOD, torch.tensor([0, 3]), k), (0, 3)),
        (lambda k: prumerge.select_centres(GOOD[:, 0], k - 1, plus=True), (0, 8)),
        (lambda k: prunevid.dpc_knn(GOOD, k), (0, 7)),
        (lambda k: sparsevlm.cluster(GOOD, k), (0, 7)),
        (lambda k: sparsevlm.recycled(GOOD[:, 0], GOOD, k), (0, 7)),
        (lambda k: tome.bipartite_matching(GOOD, k), (4, -1)),
        (lambda k: tome.merge_to(GOOD, GOOD, k), (0, 7)),
        (lambda k: vispruner.vispruner(GOOD, GOOD[:, 0], k), (7,)),
    ],
)
def test_a_count_out_of_range_is_refused_with_the_range(rule, counts):
    for count in counts:
        refused(lambda count=count: rule(count), f" {count}: ", "…")


@pytest.mark.parametrize(
    "rule",
    [
        lambda: dart.least_duplicated(GOOD, BROKEN, GOOD[:1], GOOD[:1], 5),
        lambda: holov.holov(GOOD[:, 0], BROKEN[:, 0], 3),
        lambda: sparsevlm.recycled(GOOD[:, 0], BROKEN, 3),
        lambda: sparsevlm.recycled(BROKEN[:, 0], GOOD, 3),
        lambda: vispruner.vispruner(BROKEN, GOOD[:, 0], 2),
    ],
)
def test_broken_numbers_are_refused(rule):
    refused(rule, "NaN or infinity")


def test_budgets_of_a_schedule_are_at_most_the_tokens():
    method = methods.find("trio")(budgets=(20, 10), layers=(1, 3))
    assert [method.schedule(tokens, 6).budgets for tokens in (30, 12, 4)] == [(20, 10), (12, 10), (4, 4)]
    assert methods.find("dart")(budgets=(68,), layers=(2,)).schedule(576, 32) == Schedule((2,), (68,), 576, 32)
