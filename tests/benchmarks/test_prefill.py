"""What TRIO's prefill costs beside random's, with the launches and host waits of its selection."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import pytest
import torch

from trio_core import methods, prune
from trio_core.methods.method import Method
from trio_core.methods.trio import Trio
from trio_profile.inputs.workload import Workload
from trio_profile.profilers import launches

RETENTION = 64 / 576


def prefill(workload: Workload, method: Method | None) -> Callable[[], object]:
    """A prefill under `method`; None is dense."""

    def run() -> object:
        with nullcontext() if method is None else prune(workload.model, method):
            return workload.prefill()

    return run


def check_scores(workload: Workload, method: Trio) -> tuple[str, ...]:
    """Hold the scores to the tail's, with the same tokens kept. Returns the notes of the trace."""
    traces = []
    for saliency in ("tail", method.saliency):
        with prune(workload.model, replace(method, saliency=saliency)) as trace:
            workload.prefill()
        traces.append(trace)
    for tail, ours in zip(*(trace.stages for trace in traces), strict=True):
        assert torch.equal(ours.kept[0], tail.kept[0])
        expected = tail.scores[0]
        widest = 1e-5 * expected.nan_to_num().max()
        assert torch.allclose(ours.scores[0], expected, rtol=0, atol=widest, equal_nan=True)
    return traces[1].notes


@pytest.mark.benchmark(group="prefill, TRIO beside random, CPU time of one thread")
@pytest.mark.parametrize("saliency", ["tail", "autograd", "compiled"])
@pytest.mark.parametrize("model", ["pocket", "deep"])
def test_trio_over_random(
    benchmark, interleaved_cpu_time, one_thread, request, model: str, saliency: Literal["tail", "autograd", "compiled"]
):
    workload: Workload = request.getfixturevalue(model)
    random, trio = methods.find("random")(retention=RETENTION), Trio(retention=RETENTION, saliency=saliency)
    if saliency == "compiled":  # its operators cannot be counted
        benchmark.extra_info.update(notes=check_scores(workload, trio))
    else:
        ours, control = (launches.measure(workload, method) for method in (trio, random))
        benchmark.extra_info.update(
            launches_over_random=ours.launches - control.launches,
            host_waits_over_random=ours.host_waits - control.host_waits,
        )
    benchmark.extra_info.update(
        trio_over_random=interleaved_cpu_time(prefill(workload, random), prefill(workload, trio), 31)
    )
