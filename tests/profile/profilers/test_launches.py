from functools import partial

import torch

from trio_core import prune
from trio_core.methods.grid import Grid
from trio_core.methods.random import Random
from trio_core.methods.trio import Trio
from trio_profile.profilers import launches


def test_launches_and_waits_are_counted_exactly(tiny_workload):
    x = torch.arange(12.0).view(3, 4)
    counted = partial(launches.count, held=[x])
    assert counted(lambda: (x @ x.T).view(9)[2:5].t()) == launches.Launches(1, 0)
    assert counted(lambda: (x + 1).tolist()) == launches.Launches(1, 1)
    assert counted(lambda: x[x > 3]).host_waits == 1
    assert counted(lambda: x[torch.tensor([0, 2])]).host_waits == 0
    assert counted(lambda: bool((x > 3).any()) and float(x[0, 0])).host_waits == 2
    assert counted(lambda: x.cpu().tolist()) == launches.Launches(0, 1)
    assert counted(lambda: torch.arange(3).tolist()) == launches.Launches(0, 0)
    assert counted(lambda: torch.arange(3, device=x.device).tolist()) == launches.Launches(1, 1)
    assert counted(lambda: (torch.arange(3).to(x.device) + 1).tolist()) == launches.Launches(1, 1)
    assert counted(lambda: (torch.arange(3).to(str(x.device)) + 1).tolist()) == launches.Launches(1, 1)
    assert counted(lambda: (torch.arange(3).to(x) + 1).tolist()).host_waits == 1
    assert counted(lambda: torch.nonzero(input=x)).host_waits == 1
    assert counted(lambda: x[0].numpy().tolist()) == launches.Launches(0, 1)
    dense = launches.measure(tiny_workload, None)
    assert dense == launches.measure(tiny_workload, None)
    pruned = launches.measure(tiny_workload, Grid(retention=0.3))
    assert pruned.launches > dense.launches


def test_a_stage_of_trio_launches_few_operators_and_waits_once(tiny_workload):
    """Beyond random's, at most 130 operators and one wait a stage. pocket-deep has as many."""
    trio, random = Trio(retention=0.3, layers=(1, 2)), Random(retention=0.3, layers=(1, 2))
    ours, control = launches.measure(tiny_workload, trio), launches.measure(tiny_workload, random)
    with prune(tiny_workload.model, trio) as trace:
        tiny_workload.prefill()
    stages = len(trace.stages)
    assert ours.launches - control.launches <= 130 * stages
    assert ours.host_waits - control.host_waits == stages


def test_the_order_of_every_selection_is_checked_without_a_host_wait(tiny_workload):
    """A context is opened for every run that is timed, and no run waits more than another."""
    chooses, model = Random(retention=0.4, seed=977), tiny_workload.model
    waits: list[int] = []
    for _ in range(2):
        with prune(model, chooses):
            waits.append(launches.count(tiny_workload.prefill, tiny_workload.inputs.values()).host_waits)
    assert waits[0] == waits[1]


def test_a_method_that_draws_on_the_host_waits_no_more_than_the_dense_model(tiny_workload):
    """Its draw and the check of its order are the host's own. Only the places of the pictures are read."""
    dense, random = (launches.measure(tiny_workload, method) for method in (None, Random(retention=0.4)))
    assert random.host_waits - dense.host_waits <= 3
