"""Energy above idle: joules of a prefill and of a decoded token, by the GPU's own counter.

The counter moves in steps of up to 100 ms, which is too coarse for one prefill. So the work is repeated for at least
two seconds. The energy that the idle device would use in this time is subtracted.
"""

import time
from collections.abc import Callable

import torch

from trio_core.methods.method import Method
from trio_profile.inputs.workload import Workload
from trio_profile.profilers.gpu import Gpu, NotAvailable
from trio_profile.records.schema import Energy

SECONDS = 2.0
IDLE_SECONDS = 1.0


def measure(
    workload: Workload,
    method: Method | None,
    *,
    gpu: Gpu | None = None,
    now: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Energy:
    """Joules of a prefill and of each token that is decoded after it, or the reason why they are unknown.

    method: None for the dense model.
    gpu, now, sleep: a test may replace the device and the clock.
    """
    try:
        gpu = gpu or Gpu(workload.device)
        idle_w = _idle_watts(workload, gpu, now, sleep)
        with workload.pruned(method):
            prefill_j = _joules(workload, workload.prefill, gpu, idle_w, now)
            whole_j = _joules(workload, workload.generate, gpu, idle_w, now)
    except NotAvailable as reason:
        return Energy(reason=str(reason))
    tokens = workload.new_tokens - 1
    return Energy(
        prefill_j=prefill_j, token_j=(whole_j - prefill_j) / tokens if tokens else None, idle_w=idle_w, seconds=SECONDS
    )


def _idle_watts(workload: Workload, gpu: Gpu, now: Callable[[], float], sleep: Callable[[float], None]) -> float:
    _finish(workload)
    started, before = now(), gpu.energy_j()
    sleep(IDLE_SECONDS)
    return (gpu.energy_j() - before) / (now() - started)


def _joules(workload: Workload, run: Callable[[], object], gpu: Gpu, idle_w: float, now: Callable[[], float]) -> float:
    """Joules of one run above idle, averaged over two seconds. Raises NotAvailable if the counter does not move."""
    run()
    _finish(workload)
    started, before, runs = now(), gpu.energy_j(), 0
    while now() - started < SECONDS:
        run()
        _finish(workload)
        runs += 1
    spent, seconds = gpu.energy_j() - before, now() - started
    if spent <= 0:
        raise NotAvailable(f"the energy counter did not move in {seconds:.1f} s of work")
    return (spent - idle_w * seconds) / runs


def _finish(workload: Workload) -> None:
    if workload.device.type == "cuda":
        torch.cuda.synchronize(workload.device)
