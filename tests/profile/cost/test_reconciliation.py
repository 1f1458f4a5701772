"""From the claim to the count with nothing left over, on every family, under every method, eager and SDPA."""

import pytest

from tests.core import tiny
from tests.profile.cost.test_conventions import grouped
from trio_core import methods
from trio_core.models import adapter_for
from trio_profile.cost.conventions import Convention, Prefill
from trio_profile.cost.formula import decode_macs, fastv_inference, layer_macs
from trio_profile.cost.reconciliation import CountedWork, Reconciliation, reconcile
from trio_profile.engine.plan import PlannedCell
from trio_profile.inputs.towers import DEAD_LAYER, vision_terms
from trio_profile.inputs.workload import Workload, shape_for
from trio_profile.profilers import flops_counted
from trio_profile.records.schema import Cell, Study

WITH_A_FORMULA = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl")
"""Families whose tower the cost model knows."""
SHAPE = grouped().shape


def workload_of(family: str, attention: str | None, size: str = "small") -> Workload:
    model, one = tiny.model(family, attention), tiny.sample(family, size)
    adapter = adapter_for(model)
    return Workload(model, adapter, one, shape_for(adapter, Study(), one), 3)


def walk(workload: Workload, name: str | None) -> Reconciliation:
    """Of one prefill, dense (None) or under a method at half the tokens."""
    method = None if name is None else methods.find(name)(retention=0.5)
    seen, trace = flops_counted.prefill(workload, method)
    shape = workload.shape
    visual = (shape.visual_tokens,) * shape.num_layers
    cell = None
    if method is not None:
        assert name is not None and trace is not None
        cell = PlannedCell(Cell(method=name, retention=0.5), method, trace.schedules[0])
        visual = trace.schedules[0].tokens_by_layer
    return reconcile(
        Prefill(shape, visual, overhead_macs=0 if cell is None else cell.fastv_overhead_macs(shape, 1.0)),
        selection=0 if cell is None else cell.selection_macs(shape),
        known=vision_terms(workload.model, workload.inputs),
        counted=CountedWork(macs=seen.macs, selection=seen.selection_macs, modules=seen.modules),
    )


@tiny.every_family
def test_the_terms_explain_the_whole_dense_count(family: str):
    """Dense; the tower by its formula where there is one, else as a term of its own."""
    workload = workload_of(family, None)
    found = walk(workload, None)
    assert found.residual_macs == 0
    assert found.claimed_macs + sum(term.macs for term in found.terms) == found.counted_macs
    counted = [term for term in found.terms if term.name.endswith("no formula, as counted")]
    assert bool(counted) == (family not in WITH_A_FORMULA)
    assert bool(vision_terms(workload.model, workload.inputs)) == (family in WITH_A_FORMULA)


OF_QWEN = [
    name for name in methods.names() if name not in ("prumerge", "pixelprune") and methods.find(name).media != "videos"
]
"""But PixelPrune, with which the tower's own formula does not hold."""


@pytest.mark.parametrize("name", tiny.fast_first(OF_QWEN, "trio", "fastv", "visionzip"))
def test_the_terms_explain_the_whole_pruned_count(name: str):
    assert walk(workload_of("qwen2_5_vl", "sdpa"), name).residual_macs == 0


def test_a_tower_that_is_thinned_out_is_counted_as_it_ran():
    """Every patch is embedded. The layers and the merger run on the four patches of each kept token."""
    workload = workload_of("qwen2_vl", "sdpa")
    vision, tokens = workload.model.config.vision_config, workload.shape.visual_tokens
    method = methods.find("pixelprune")(retention=0.5)
    seen, trace = flops_counted.prefill(workload, method)
    d, m, patches = vision.embed_dim, int(vision.embed_dim * vision.mlp_ratio), 4 * (tokens // 2)
    embedding = 4 * tokens * 3 * vision.temporal_patch_size * vision.patch_size**2 * d
    layer = patches * (4 * d * d + 2 * d * m) + 2 * patches**2 * d
    merger = tokens // 2 * (4 * d * 4 * d + 4 * d * vision.hidden_size)
    assert seen.modules == {"model.visual": embedding + vision.depth * layer + merger}
    traced, reason = flops_counted.fvcore(workload, method, trace)
    assert traced is None and reason is not None and "pixelprune" in reason


@pytest.mark.slow
def test_the_terms_explain_the_whole_pruned_count_of_other_families():
    for family, name in (
        ("llava", "prumerge"),
        ("llava", "visionzip"),
        ("llava_next", "visionzip"),
        ("gemma3", "trio"),
        ("qwen3_vl", "trio"),
    ):
        assert walk(workload_of(family, "sdpa"), name).residual_macs == 0, (family, name)


@pytest.mark.parametrize("family", ["llava_next", "qwen2_vl"])
def test_a_known_tower_is_counted_by_its_formula(family: str):
    """With tiles of several sizes; with a picture and a video."""
    assert walk(workload_of(family, "sdpa", "large"), None).residual_macs == 0


def test_eager_and_sdpa_count_the_same():
    eager, sdpa = (walk(workload_of("qwen2_5_vl", attention), "random") for attention in ("eager", "sdpa"))
    assert eager == sdpa


MASKED_BY_VMAP = ("gemma3", "gemma4")
"""Families whose pictures see themselves whole. torch cannot trace how their masks are made."""


@pytest.mark.parametrize("attention", tiny.fast_first(["eager", "sdpa"], "sdpa"))
@pytest.mark.parametrize(
    "family", tiny.fast_first([name for name in tiny.FAMILIES if name not in MASKED_BY_VMAP], "llava")
)
def test_fvcore_leaves_out_modules_whose_output_nothing_reads(family: str, attention: str):
    if family == "paligemma2" and attention == "sdpa":
        pytest.skip("transformers' Gemma 2 has no SDPA")
    workload = workload_of(family, attention)
    seen, trace = flops_counted.prefill(workload, None)
    traced, reason = flops_counted.fvcore(workload, None, trace)
    assert traced is not None, reason
    dead = traced.leaves_out(seen)
    assert traced.macs == seen.macs - sum(dead.values())
    assert all(path.endswith("encoder.layers.1") for path in dead)
    assert bool(dead) == (family in ("llava", "llava_next", "llava_next_video", "video_llava"))


@pytest.mark.parametrize("name", ["trio", "visionzip"])
@pytest.mark.slow
def test_fvcore_leaves_out_the_selection(name: str):
    workload = workload_of("llava", "sdpa")
    method = methods.find(name)(retention=0.5)
    seen, trace = flops_counted.prefill(workload, method)
    traced, reason = flops_counted.fvcore(workload, method, trace)
    assert traced is not None, reason
    dead = vision_terms(workload.model, workload.inputs)["model.vision_tower"][DEAD_LAYER]
    assert traced.leaves_out(seen) == {"model.vision_tower.encoder.layers.1": dead}
    assert traced.macs == seen.macs - seen.selection_macs - dead


@pytest.mark.parametrize("name", [None, "trio"])
@tiny.every_family
def test_decoding_is_what_the_formula_says(family: str, name: str | None):
    workload = workload_of(family, None)
    method = None if name is None else methods.find(name)(retention=0.5)
    seen, trace = flops_counted.prefill(workload, method)
    shape, steps = workload.shape, workload.new_tokens - 1
    visual = (shape.visual_tokens,) * shape.num_layers if trace is None else trace.schedules[0].tokens_by_layer
    expected = decode_macs([n + shape.text_tokens for n in visual], steps, shape)
    assert flops_counted.decoding(workload, method, seen.macs) == shape.batch * expected


def test_each_term_is_the_one_worked_out_by_hand():
    d, m, vocabulary, batch = 8, 16, 32, 3
    visual, text = (10, 6), 5
    counted = batch * sum(layer_macs(n + text, SHAPE) for n in visual) + batch * d * vocabulary + 700 + 40
    found = reconcile(
        Prefill(SHAPE, visual, overhead_macs=99),
        selection=50,
        known={"tower": {"layers": 600}},
        counted=CountedWork(macs=counted, selection=40, modules={"tower": 600, "projector": 100}),
    )
    assert found.claimed_macs == batch * fastv_inference(visual, d, m) + 99
    terms = {term.name: term.macs for term in found.terms}
    assert terms["overhead that the claim assumes"] == -99
    assert terms["FFN: its gate"] == batch * 16 * d * m
    assert terms["keys and values: grouped"] == -batch * 16 * 2 * d * 4
    assert terms["queries: another width"] == batch * (16 * 2 * d * 8 + 2 * (100 + 36) * 8)
    assert terms["tower: layers"] == 600
    assert terms["projector: no formula, as counted"] == 100
    assert terms["selection, as declared"] == 50
    assert terms["selection, counted less declared"] == -10
    assert found.residual_macs == 0


def test_work_that_no_term_explains_is_the_residual():
    counted = CountedWork(macs=10**6, selection=None, modules={})
    whole = reconcile(Prefill(SHAPE, (10, 10)), selection=0, known={}, counted=counted)
    assert whole.residual_macs == 10**6 - whole.claimed_macs - sum(term.macs for term in whole.terms) != 0


def test_the_walk_from_a_printed_figure_begins_with_its_rounding():
    prefill, convention = Prefill(SHAPE, (10, 10)), Convention(tokens="all", ffn=3, unit="flops")
    counted = CountedWork(macs=convention.value(prefill) // 2 + 3 * 8 * 32, selection=None, modules={})
    found = reconcile(prefill, selection=0, known={}, counted=counted, convention=convention, figure=10**6)
    assert found.claimed_macs == 10**6
    first, unit, head = found.terms
    assert first.macs == convention.value(prefill) - 10**6
    assert (unit.name, unit.macs) == ("FLOPs are twice the MACs", -convention.value(prefill) // 2)
    assert (head.name, head.macs) == ("head, one row", 3 * 8 * 32)
    assert found.residual_macs == 0
