"""Counted work of a tiny model against the arithmetic of its sizes."""

from trio_core import Schedule, Trio
from trio_core.methods.random import Random
from trio_profile.profilers import flops_counted


def decoder_macs(tokens: int) -> int:
    """One layer of the tiny checkpoint: width 32, FFN 80 with a gate, dense attention."""
    return 4 * tokens * 32 * 32 + 2 * tokens * tokens * 32 + 3 * tokens * 32 * 80


def outside_decoder_macs() -> int:
    """Tower (2 layers, 37 tokens, width 32, FFN 64), patches, projector, and the head's one row."""
    tower = 2 * (4 * 37 * 32 * 32 + 2 * 37 * 37 * 32 + 2 * 37 * 32 * 64)
    patches = 36 * 32 * 3 * 8 * 8
    projector = 2 * 36 * 32 * 32
    return tower + patches + projector + 32 * 300


def test_dense_count_is_the_arithmetic_and_fvcore_agrees_but_for_a_vision_layer_that_nothing_reads(tiny_workload):
    shape = tiny_workload.shape
    counted, trace = flops_counted.measure(tiny_workload, None)
    tokens = shape.visual_tokens + shape.text_tokens
    assert counted.torch_flops == 2 * (6 * decoder_macs(tokens) + outside_decoder_macs())
    assert trace is None
    assert counted.uncounted == ()
    assert counted.selection_flops == 0
    # vision_feature_layer = -2: the last layer runs, its output goes nowhere, and tracing leaves it out.
    dead_layer = 4 * 37 * 32 * 32 + 2 * 37 * 37 * 32 + 2 * 37 * 32 * 64
    assert counted.fvcore_reason is None
    assert counted.torch_flops == 2 * (counted.fvcore_macs + dead_layer)


def test_pruned_count_is_the_arithmetic_of_the_schedule(tiny_workload):
    shape = tiny_workload.shape
    schedule = Schedule.average(retention=0.4, visual_tokens=36, num_layers=6)
    counted, trace = flops_counted.measure(tiny_workload, Random(retention=0.4))
    decoder = sum(decoder_macs(n + shape.text_tokens) for n in schedule.tokens_by_layer)
    assert counted.torch_flops == 2 * (decoder + outside_decoder_macs())
    assert counted.selection_flops == 0
    assert trace.realised_retention == schedule.layer_average


def test_a_methods_own_work_is_counted_apart(tiny_workload):
    random, _ = flops_counted.measure(tiny_workload, Random(retention=0.4))
    trio, _ = flops_counted.measure(tiny_workload, Trio(retention=0.4))
    assert trio.selection_flops > 0
    assert trio.torch_flops - trio.selection_flops == random.torch_flops
    # fvcore's tracer cannot follow autograd: the selection is replayed, so the model's own work is left.
    assert trio.fvcore_reason is None
    assert trio.fvcore_macs == random.fvcore_macs


def test_autograd_costs_two_forwards_and_more(tiny_workload):
    """γ by hand at one stage: linears once forward, once back; attention 2 products forward, 5 back in its kernel."""
    trio = Trio(retention=0.5, layers=(1,), nms=False, saliency="autograd")
    counted, _ = flops_counted.measure(tiny_workload, trio)
    tokens = tiny_workload.shape.visual_tokens + tiny_workload.shape.text_tokens
    linears = 4 * tokens * 32 * 32 + 3 * tokens * 32 * 80
    product = tokens * tokens * 32
    head = 4 * 32 * 300
    assert counted.selection_flops == 2 * (2 * linears + 2 * product + 5 * product + 2 * head)


def test_a_model_that_fvcore_cannot_trace_keeps_the_other_count(tiny_workload, monkeypatch):
    def breaks(_workload):
        raise RuntimeError("cannot trace\nbecause of this")

    monkeypatch.setattr(flops_counted, "_traced", breaks)
    counted, _ = flops_counted.measure(tiny_workload, None)
    assert counted.fvcore_macs is None
    assert counted.fvcore_reason == "RuntimeError: cannot trace"
    assert counted.torch_flops > 0


def test_an_operator_without_a_formula_is_listed(tiny_workload, monkeypatch):
    monkeypatch.setattr(flops_counted, "supplied", dict)
    counted, _ = flops_counted.measure(tiny_workload, None)
    assert counted.uncounted == ("aten._scaled_dot_product_flash_attention_for_cpu",)
