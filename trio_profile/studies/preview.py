"""The dry run: plan a study and time a few runs of its model. Nothing is written."""

import time

from trio_profile.analysis.preview import Preview, PreviewCell, PreviewRetention, RefusedCell
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.environment import collect
from trio_profile.profilers.clock import clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.schema import Study
from trio_profile.studies import duration
from trio_profile.studies.kinds import Kind, find
from trio_profile.studies.plan import Plan, PlannedCell, resolve

_UNKNOWN = {"eval": "the number of questions is known only after the tasks are loaded"}
"""The kinds whose time cannot be estimated from a few runs, with the reason."""


def preview(study: Study, watch: Watch = ignore) -> Preview:
    """Return the cells that a study would measure, their work, and the expected time on this machine.

    The errors are those that the study itself raises before it measures.
    """
    kind = find(study.verb)
    watch(Step(f"loading {study.model}"))
    imports, start = duration.import_seconds(), time.perf_counter()
    plan, reason = _plan(study, kind)
    load = imports + time.perf_counter() - start
    seconds, reason = None, reason or _UNKNOWN.get(kind.name)
    if reason is None:
        clock = clock_for(plan.workload.device, preroll_ms=study.preroll_ms, cold_l2=study.cold_l2)
        pace = duration.measure(plan, clock, watch, load)
        seconds = (
            duration.seconds_of_cells(plan, pace)
            if kind.file == MEASUREMENTS
            else duration.seconds_of_prefill(plan, pace)
        )
    return Preview(
        environment=collect("cpu" if study.device == "meta" else study.device),
        study=study,
        shape=plan.workload.shape,
        cells=tuple(_cell(planned, plan) for planned in plan.cells),
        refused=tuple(
            RefusedCell(variant=record.cell.variant, retention=record.cell.retention, reason=record.reason or "")
            for record in plan.refused
        ),
        seconds=seconds,
        seconds_reason=reason,
    )


def _plan(study: Study, kind: Kind) -> tuple[Plan, str | None]:
    """Return the plan, and the reason why nothing can be timed; None if it can.

    If a built-in model does not fit into the memory of this machine, it is planned without weights.
    """
    if study.device == "meta":
        return resolve(study, keep_refusals=kind.keep_refusals, weights=False), "the meta device runs nothing"
    try:
        return resolve(study, keep_refusals=kind.keep_refusals), None
    except StudyError as error:
        if study.model not in BUILTIN:
            raise
        return resolve(study, keep_refusals=kind.keep_refusals, weights=False), str(error)


def _cell(planned: PlannedCell, plan: Plan) -> PreviewCell:
    schedule, shape, gamma = planned.schedule, plan.workload.shape, plan.study.gamma
    return PreviewCell(
        method=planned.cell.method,
        variant=planned.cell.variant,
        retention=PreviewRetention(
            nominal=planned.cell.retention,
            layer_average=schedule.layer_average,
            final_layer=schedule.final_layer,
        ),
        layers=schedule.layers,
        budgets=schedule.budgets,
        fastv_macs=planned.fastv_macs(shape, gamma),
        fastv_overhead_macs=planned.fastv_overhead_macs(shape, gamma),
        selection_macs=planned.selection_macs(shape),
    )
