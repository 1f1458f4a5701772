"""The one loop: cells → measurements → store."""

from collections.abc import Callable
from pathlib import Path

import torch

from trio_profile import cost_model, environment
from trio_profile import study as studies
from trio_profile.profilers import flops_counted, kv_cache, latency, memory, power
from trio_profile.profilers.clock import Clock
from trio_profile.schema import Cell, Dense, Measurement, Retention, Shape, Study
from trio_profile.store import Contents, Store
from trio_profile.study import Planned
from trio_profile.workload import Workload, build

Watcher = Callable[[int, int, str], None]
"""Called as (finished, all, what comes next)."""


def run(study: Study, directory: Path, *, watch: Watcher | None = None, clock: Clock | None = None) -> Contents:
    """Measure what of the study is not yet in the directory, each cell written as it is finished; return all of it.

    Raises StudyError, StoreError or a TrioError before anything is measured; what a cell raises for want of memory is
    recorded as that cell's failure, and the rest goes on.
    """
    watch = watch or _nobody_watches
    here = environment.collect(study.device)
    store = Store(directory)
    if store.exists():
        contents = store.open(study, here)
        if not unfinished(study, contents):
            return contents
    watch(0, 1, "loading the model")
    workload = build(study)
    plan = studies.plan(study, workload.shape)
    contents = store.open(study, here)
    todo = unfinished(study, contents)
    total = len(plan) + 1
    if contents.dense is None:
        watch(0, total, "dense")
        contents.dense = measure_dense(workload, study.seed, clock)
        store.append(contents.dense)
    for planned in plan:
        if planned.cell not in todo:
            continue
        watch(total - len(todo), total, f"{planned.cell.method} at {planned.cell.retention:g}")
        measurement = measure_cell(workload, planned, study, clock)
        store.append(measurement)
        contents.measurements = [m for m in contents.measurements if m.cell != planned.cell] + [measurement]
        todo.remove(planned.cell)
    watch(total, total, "done")
    return contents


def _nobody_watches(_finished: int, _total: int, _coming: str) -> None:
    pass


def unfinished(study: Study, contents: Contents) -> list[Cell]:
    """Cells that have not been measured; one that failed counts as such and is tried again."""
    finished = {measurement.cell.id for measurement in contents.measurements if measurement.status == "done"}
    return [cell for cell in study.cells() if cell.id not in finished]


def measure_dense(workload: Workload, seed: int = 0, clock: Clock | None = None) -> Dense:
    """The exact quantities of the unpruned model, and whether a repeated picture is faster than a new one."""
    shape = workload.shape
    counted, _ = flops_counted.measure(workload, None)
    everywhere = [shape.visual_tokens] * shape.num_layers
    return Dense(
        shape=shape,
        fastv_macs=cost_model.fastv_inference(everywhere, shape.hidden, shape.intermediate) * shape.batch,
        counted=counted,
        kv_bytes=sum(kv_cache.measure(workload, None)),
        kv_bytes_predicted=kv_cache.predicted_bytes(shape, everywhere),
        peak_memory_bytes=memory.measure(workload, None),
        energy=power.measure(workload, None),
        distinct_ratios=latency.distinct_ratios(workload, seed=seed, clock=clock),
    )


def measure_cell(workload: Workload, planned: Planned, study: Study, clock: Clock | None = None) -> Measurement:
    """All quantities of one cell; a failure for want of memory comes back as one, with its reason."""
    try:
        return _measure_cell(workload, planned, study, clock)
    except (torch.OutOfMemoryError, MemoryError) as error:
        return _failed(planned, error)
    except RuntimeError as error:
        # The CPU allocator has no error class of its own.
        if "not enough memory" in str(error) or "can't allocate memory" in str(error):
            return _failed(planned, error)
        raise


def _failed(planned: Planned, error: BaseException) -> Measurement:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return Measurement(cell=planned.cell, status="failed", reason=f"out of memory: {reason}"[:300])


def _measure_cell(workload: Workload, planned: Planned, study: Study, clock: Clock | None) -> Measurement:
    shape, schedule = workload.shape, planned.schedule
    # Counts come before times: they run everything once, and a CPU's allocator keeps large blocks only after it has
    # seen some. A process that has not is slower by a quarter, and a resumed sweep would mix the two.
    counted, trace = flops_counted.measure(workload, planned.method)
    held = sum(kv_cache.measure(workload, planned.method))
    peak = memory.measure(workload, planned.method)
    times = latency.measure(
        workload,
        planned.method,
        precision=study.precision,
        seconds=study.cell_seconds,
        seed=study.seed,
        clock=clock,
    )
    assert trace is not None
    return Measurement(
        cell=planned.cell,
        status="done",
        retention=Retention(
            nominal=planned.cell.retention,
            layer_average=schedule.layer_average,
            final_layer=schedule.final_layer,
            realised=trace.realised_retention,
        ),
        layers=schedule.layers,
        budgets=schedule.budgets,
        fastv_macs=planned.fastv_macs(shape, study.gamma),
        fastv_overhead_macs=planned.fastv_overhead_macs(shape, study.gamma),
        gamma_counted=_gamma_counted(planned, shape, counted.selection_flops),
        counted=counted,
        kv_bytes=held,
        kv_bytes_predicted=kv_cache.predicted_bytes(shape, schedule.tokens_by_layer),
        peak_memory_bytes=peak,
        energy=power.measure(workload, planned.method),
        warmups=times.warmups,
        discarded=times.discarded,
        slowed_by=times.slowed_by,
        strangers=times.strangers,
        pairs=times.pairs,
        stopped=times.stopped,
    )


def _gamma_counted(planned: Planned, shape: Shape, selection_flops: int) -> float | None:
    """γ as it really is: the selection's counted work over a forward of each layer it looked at, text included."""
    forwards = sum(
        cost_model.layer_macs(
            visual + shape.text_tokens,
            shape.hidden,
            shape.intermediate,
            shape.query_width,
            shape.kv_width,
            shape.ffn_matrices,
        )
        for visual in planned.stage_tokens
    )
    return selection_flops / 2 / (forwards * shape.batch) if forwards else None
