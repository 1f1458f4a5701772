"""The one loop: cells → measurements → store."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from trio_core.errors import TrioError
from trio_core.methods.method import Method
from trio_profile.cost import formula as cost_model
from trio_profile.errors import StoreError
from trio_profile.inputs import environment
from trio_profile.inputs.questions import digest
from trio_profile.inputs.workload import Workload, build
from trio_profile.profilers import fidelity, flops_counted, kv_cache, latency, launches, memory, power
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.records.schema import Cell, Dense, Measurement, Retention, Shape, Study
from trio_profile.records.store import Contents, Store
from trio_profile.studies import plan as studies
from trio_profile.studies.plan import Planned

Watcher = Callable[[int, int, str], None]
"""Called as (finished, all, what comes next)."""


def run(
    study: Study,
    directory: Path,
    *,
    watch: Watcher | None = None,
    clock: Clock | None = None,
    refusals: bool = False,
) -> Contents:
    """Measure what of the study is not yet in the directory, each cell written as it is finished; return all of it.

    Cells of one block, methods at one retention say, are compared: they are sampled in turn with one dense run.
    refusals: a cell that its method or schedule refuses is recorded as such, with the reason, and the rest goes on.
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
    if refusals:
        plan, refused = studies.attempt(study, workload.shape)
    else:
        plan, refused = studies.plan(study, workload.shape), []
    clock = clock or clock_for(workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
    contents = store.open(study, here)
    todo = unfinished(study, contents)
    total = len(plan) + 1
    for measurement in refused:
        if measurement.cell in todo:
            _keep(measurement, store, contents, todo)
    watch(0, total, "dense")
    asked = digest(workload.questions) if study.questions is not None else ""
    if contents.dense is not None and contents.dense.questions != asked:
        raise StoreError(
            f"{directory} was asked other questions than {study.questions} holds now; choose another --out"
        )
    against = _reference(workload, study)
    if contents.dense is None:
        dense = measure_dense(workload, study.seed, clock, against=against)
        contents.dense = dense.model_copy(update={"questions": asked})
        store.append(contents.dense)

    def by_block(planned: Planned) -> tuple[float, int]:
        return study.block(planned.cell)

    for (retention, _), cells in groupby(sorted((p for p in plan if p.cell in todo), key=by_block), by_block):
        block = list(cells)
        named = f"{block[0].cell.variant} at {retention:g}" if len(block) == 1 else f"{len(block)} at {retention:g}"
        watch(total - len(todo), total, named)
        for measurement in measure_block(workload, block, study, clock, against=against, refusals=refusals):
            _keep(measurement, store, contents, todo)
    watch(total, total, "done")
    return contents


def _keep(measurement: Measurement, store: Store, contents: Contents, todo: list[Cell]) -> None:
    store.append(measurement)
    contents.measurements = [m for m in contents.measurements if m.cell != measurement.cell] + [measurement]
    todo.remove(measurement.cell)


def _reference(workload: Workload, study: Study) -> fidelity.Reference | None:
    """What pruned models are held against, where that is asked."""
    if not workload.questions and not study.fidelity_inputs:
        return None
    # A prompt of the user's own is held against itself alone: noise in its place would be another question.
    drawn = study.fidelity_inputs or 0 if study.image is None and study.prompt is None else 1
    return fidelity.reference(workload, drawn, study.seed)


def _nobody_watches(_finished: int, _total: int, _coming: str) -> None:
    pass


def unfinished(study: Study, contents: Contents) -> list[Cell]:
    """Cells that have not been measured; one that failed counts as such and is tried again."""
    finished = {m.cell.id for m in contents.measurements if m.status in ("done", "refused")}
    return [cell for cell in study.cells() if cell.id not in finished]


def measure_dense(
    workload: Workload, seed: int = 0, clock: Clock | None = None, *, against: fidelity.Reference | None = None
) -> Dense:
    """The exact quantities of the unpruned model, and whether a repeated picture is faster than a new one.

    against: what it says, where that was asked.
    """
    shape = workload.shape
    counted, _ = flops_counted.measure(workload, None)
    everywhere = [shape.visual_tokens] * shape.num_layers
    return Dense(
        shape=shape,
        fastv_macs=cost_model.fastv_inference(everywhere, shape.hidden, shape.intermediate) * shape.batch,
        counted=counted,
        kv_bytes_predicted=kv_cache.predicted_bytes(shape, everywhere),
        **_exact(workload, None),
        energy=power.measure(workload, None),
        distinct_ratios=latency.distinct_ratios(workload, seed=seed, clock=clock),
        correct=against.correct if against else (),
        kinds=against.kinds if against else (),
    )


def measure_block(
    workload: Workload,
    block: Sequence[Planned],
    study: Study,
    clock: Clock | None = None,
    *,
    against: fidelity.Reference | None = None,
    refusals: bool = False,
) -> Iterator[Measurement]:
    """All quantities of cells that are compared, each yielded as it is finished.

    A cell that wants for memory comes back as a failure with its reason, with `refusals` also one that its method
    refuses, and the others are measured all the same. against: what the dense model says, where that is asked.
    """
    counted: list[tuple[Planned, dict[str, Any]]] = []
    for planned in block:
        # Counts come before times: they run everything once, and a CPU's allocator keeps large blocks only after it
        # has seen some. A process that has not is slower by a quarter, and a resumed sweep would mix the two.
        try:
            fields = _count(workload, planned, study)
            if against is not None:
                fields["fidelity"] = fidelity.measure(planned.method, against)
            counted.append((planned, fields))
        except TrioError as error:
            if not refusals:
                raise
            yield Measurement(cell=planned.cell, status="refused", reason=str(error))
        except (MemoryError, RuntimeError) as error:
            yield _failed(planned, error)
    if not counted:
        return
    finished = set[int]()
    try:
        for which, times in latency.measure(
            workload,
            [planned.method for planned, _ in counted],
            precision=study.precision,
            seconds=study.cell_seconds,
            seed=study.seed,
            clock=clock,
        ):
            planned, fields = counted[which]
            measurement = Measurement(
                cell=planned.cell,
                status="done",
                **fields,
                energy=power.measure(workload, planned.method),
                warmups=times.warmups,
                discarded=times.discarded,
                slowed_by=times.slowed_by,
                strangers=times.strangers,
                pairs=times.pairs,
                stopped=times.stopped,
            )
            finished.add(which)
            yield measurement
    except (MemoryError, RuntimeError) as error:
        # Which of several it was, each alone will show.
        alone = [planned for which, (planned, _) in enumerate(counted) if which not in finished]
        failure = _failed(alone[0], error)
        if len(alone) == 1:
            yield failure
            return
        for planned in alone:
            yield from measure_block(workload, [planned], study, clock, against=against, refusals=refusals)


def _failed(planned: Planned, error: Exception) -> Measurement:
    """The failure of a cell for want of memory; any other error is raised."""
    # The CPU allocator has no error class of its own.
    wants = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        said in str(error) for said in ("not enough memory", "can't allocate memory")
    )
    if not wants:
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return Measurement(cell=planned.cell, status="failed", reason=f"out of memory: {reason}"[:300])


def _count(workload: Workload, planned: Planned, study: Study) -> dict[str, Any]:
    """The exact quantities of a cell: fields of its Measurement."""
    shape, schedule = workload.shape, planned.schedule
    counted, trace = flops_counted.measure(workload, planned.method)
    assert trace is not None
    return {
        "remark": planned.method.reference.remark,
        "retention": Retention(
            nominal=planned.cell.retention,
            layer_average=schedule.layer_average,
            final_layer=schedule.final_layer,
            realised=trace.realised_retention,
        ),
        "layers": schedule.layers,
        "budgets": schedule.budgets,
        "fastv_macs": planned.fastv_macs(shape, study.gamma),
        "fastv_overhead_macs": planned.fastv_overhead_macs(shape, study.gamma),
        "gamma_counted": _gamma_counted(planned, shape, counted.selection_flops),
        "counted": counted,
        "kv_bytes_predicted": kv_cache.predicted_bytes(shape, schedule.tokens_by_layer),
        **_exact(workload, planned.method),
    }


def _exact(workload: Workload, method: Method | None) -> dict[str, Any]:
    """What dense and pruned have alike: the cache held, peak memory, launches."""
    peak, host = memory.measure(workload, method), launches.measure(workload, method)
    return {
        "kv_bytes": sum(kv_cache.measure(workload, method)),
        "peak_memory_bytes": peak.peak_bytes,
        "working_memory_bytes": peak.working_bytes,
        "peak_reserved_bytes": peak.reserved_bytes,
        "launches": host.launches,
        "host_waits": host.host_waits,
    }


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
