"""How far pruning moves the next token, against distributions worked out elsewhere."""

import pytest
import torch
from torch.nn.functional import kl_div

from trio_core import prune
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_profile.profilers import fidelity
from trio_profile.workload import Workload


@pytest.fixture(scope="module")
def against(tiny_workload: Workload) -> fidelity.Reference:
    return fidelity.reference(tiny_workload, 3, seed=0)


def test_nothing_dropped_is_nothing_moved(against: fidelity.Reference):
    found = fidelity.measure(Grid(retention=1.0), against)
    assert found.kl_nats == (0.0, 0.0, 0.0)
    assert found.top1 == (True, True, True)


def test_divergence_is_torch_s(tiny_workload: Workload, against: fidelity.Reference):
    method = Grid(retention=0.4)
    found = fidelity.measure(method, against)
    for workload, kl, same in zip(against.workloads, found.kl_nats, found.top1, strict=True):
        dense = workload.prefill().logits[0, -1].double()
        with prune(workload.model, method):
            pruned = workload.prefill().logits[0, -1].double()
        assert kl == pytest.approx(kl_div(pruned.log_softmax(0), dense.softmax(0), reduction="sum").item(), rel=1e-9)
        assert same == (dense.argmax() == pruned.argmax()).item()
    assert min(found.kl_nats) > 0


def test_pictures_differ_and_the_first_is_the_workload_s(tiny_workload: Workload, against: fidelity.Reference):
    first, second, third = (workload.inputs["pixel_values"] for workload in against.workloads)
    assert torch.equal(first, tiny_workload.inputs["pixel_values"])
    assert not torch.equal(second, third) and not torch.equal(first, second)
    again = fidelity.reference(tiny_workload, 2, seed=0).workloads[1].inputs["pixel_values"]
    assert torch.equal(again, second)
    assert torch.equal(against.workloads[1].inputs["input_ids"], tiny_workload.inputs["input_ids"])


def test_a_draw_is_tried_with_several_seeds(against: fidelity.Reference):
    found = fidelity.measure(Random(retention=0.4, seed=5), against)
    assert len(found.kl_nats) == len(found.top1) == 3 * fidelity.SEEDS
    alone = fidelity.measure(Random(retention=0.4, seed=6), against)
    assert alone.kl_nats[:3] == found.kl_nats[3:6]
