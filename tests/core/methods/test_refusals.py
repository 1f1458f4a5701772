"""Options, schedules and arguments that have no meaning: refused in one line that names the thing and its value."""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import partial
from typing import Any, Literal, get_origin

import pytest
import torch

from tests.core.methods.test_methods import BUILT_IN
from trio_core import OptionError, RetentionError, methods
from trio_core.methods import dart, downsample, grid, pact, prumerge, sparsevlm, tome
from trio_core.methods.method import Stage
from trio_core.rules import merging, nms, selection

NAN, INF = float("nan"), float("inf")


def refused(make: Callable[[], Any], *words: str, error: Any = OptionError) -> None:
    """`make()` raises the error, whose message has one line and these words."""
    with pytest.raises(error) as caught:
        make()
    said = str(caught.value)
    assert "\n" not in said
    assert all(word in said for word in words), said


# --- options ---------------------------------------------------------------------------------------------------------


def meaningless(option: Field) -> list[Any]:
    """Values that are outside the interval of a field, or none of its names."""
    if get_origin(option.type) is Literal:
        return ["magic"]
    if not (interval := option.metadata.get("interval")):
        return []
    low, high = map(float, interval[1:-1].split(","))
    values = [low - 1, low if interval[0] == "(" else NAN, high if interval[-1] == ")" else high + 1]
    return [int(v) for v in values if v == v and v < INF] if isinstance(option.default, int) else values


@pytest.mark.parametrize("name", [*BUILT_IN, "divprune+fastv"])
def test_a_value_outside_what_an_option_declares_is_refused_with_its_name(name, request):
    cls = methods.find(name)
    for option in fields(cls):
        for value in meaningless(option):
            if isinstance(value, str) and request.config.getoption("--shapes"):
                continue  # the shape check refuses the type before we see the value
            refused(lambda given={option.name: value}: cls(retention=0.5, **given), option.name, str(value))


def test_options_that_do_not_go_together_are_refused():
    for name, options, words in (
        *((name, {}, ("retention", "budgets")) for name in ("trio", "vtw", "divprune+fastv")),
        *(("trio", {"retention": share}, (f"retention {share}",)) for share in (0.0, 1.5, NAN)),
        *(("vtw", {"retention": 0.5, "layers": layers}, (str(layers),)) for layers in ((3, 4), (0,))),
        *(("vtw", {"retention": 0.5, "budget_rule": rule}, (repr(rule),)) for rule in ("final", "after-prune")),
        ("divprune+fastv", {"retention": 0.5, "layers": (1, 0)}, ("layers (1, 0)",)),
        ("cdpruner", {"retention": 0.5, "relevance": "clip"}, ("'clip'",)),
        ("trio", {"retention": 0.5, "budgets": (3,), "layers": (1,)}, ("retention", "budgets")),
        ("cdpruner", {"retention": 0.5, "relevance": "clip", "clip": "."}, ("question",)),
        ("cdpruner", {"retention": 0.5, "relevance": "clip", "clip": "no/such", "question": "who"}, ("'no/such'",)),
        ("cdpruner", {"retention": 0.5, "question": "who"}, ("question", "relevance 'clip'")),
        ("cdpruner", {"retention": 0.5, "clip": "."}, ("clip", "relevance 'clip'")),
        ("vtw", {"budgets": (64,), "layers": (3,)}, ("budgets (64,)", "give retention")),
        ("vtw", {"retention": 0.5, "layers": (32,)}, ("layers (32,)",)),
        ("divprune+fastv", {"retention": 0.3, "encoder_retention": 0.2}, ("0.2", "retention 0.3")),
        ("divprune+fastv", {"retention": 0.01, "encoder_retention": 1.0}, ("fastv", "lower encoder_ret")),
        ("divprune+fastv", {"budgets": (9, 5), "layers": (1, 2)}, ("before the decoder",)),
        ("divprune+fastv", {"budgets": (9, 5), "layers": (0, 2), "encoder_retention": 0.5}, ("encoder_retention",)),
    ):
        make = partial(methods.find(name), **options)
        refused(lambda make=make: make().schedule(576, 32), *words, error=(OptionError, RetentionError))


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
        ("visionzip+trio+fastv", "combine two"),
        ("visionzip+", "combine two"),
        ("prunevid+trio", "'prunevid'"),
        ("no_such_package:Thing+trio", "'no_such_package:Thing'"),
    ):
        refused(lambda name=name: methods.find(name), wrong)


# --- arguments of the rules ------------------------------------------------------------------------------------------

GOOD = torch.rand(6, 3)
SCORES, SQUARE = torch.linspace(1, 0.5, 6), torch.eye(6)


def test_a_count_out_of_range_is_refused_with_the_range():
    for rule, counts in (
        (lambda k: dart.least_duplicated(GOOD, GOOD, GOOD[:2], GOOD[:2], k), (7,)),
        (lambda k: downsample.grid_cells(2, 3, k), (0, 7)),
        (lambda k: grid.centres(2, 3, k), (0, 7)),
        (lambda k: pact.dbdpc(GOOD, torch.tensor([0, 3]), k), (0, 3)),
        (lambda k: prumerge.select_centres(SCORES, k - 1, plus=True), (0, 8)),
        (lambda k: merging.dpc_knn(GOOD, k), (0, 7)),
        (lambda k: selection.top_k(SCORES, k), (-1, 0, 7)),
        (lambda k: selection.farthest_point(GOOD, k), (0, 7)),
        (lambda k: selection.dpp_map(SQUARE, k), (0, 7)),
        (lambda k: selection.facility_location(SQUARE, SCORES, k), (0, 7)),
        (lambda k: selection.stride(6, k), (0, 7)),
        (lambda k: tome.bipartite_matching(GOOD, k), (4, -1)),
    ):
        for count in counts:
            refused(partial(rule, count), f" {count}: ", "…")


@pytest.mark.parametrize(
    "rule",
    [
        lambda bad: dart.least_duplicated(GOOD, bad(GOOD), GOOD[:1], GOOD[:1], 5),
        lambda bad: merging.contextual(GOOD, bad(GOOD), 2),
        lambda bad: merging.contextual(bad(GOOD), GOOD, 2),
        lambda bad: nms.nms_select(bad(SCORES), GOOD, 2),
        lambda bad: nms.nms_select(SCORES, bad(GOOD), 6),
        lambda bad: selection.facility_location(bad(SQUARE), SCORES, 2),
        lambda bad: selection.facility_location(SQUARE, bad(SCORES), 2),
        lambda bad: sparsevlm.recycled(bad(SCORES), GOOD, 3),
    ],
)
def test_broken_numbers_are_refused(rule):
    for broken in (NAN, INF, -INF):
        refused(lambda value=broken: rule(lambda part: part.index_fill(0, torch.tensor([3]), value)), "NaN or infinity")
