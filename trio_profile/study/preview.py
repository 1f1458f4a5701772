"""The dry run: plan a study and time a few runs of its model. Nothing is written."""

import time

import torch

from trio_profile.engine.plan import Plan, PlannedCell, deployable, resolve
from trio_profile.errors import StudyError
from trio_profile.inputs.environment import collect
from trio_profile.inputs.models import LARGE, require_memory
from trio_profile.inputs.workload import ASKED_TOGETHER
from trio_profile.judge.planned import Preview, PreviewCell, Refusal
from trio_profile.judge.reach import reach_of
from trio_profile.profilers import fidelity, rounds
from trio_profile.profilers.clock import clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.facts import models
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.schema import Shape, Study
from trio_profile.study.kind import Kind
from trio_profile.study.kinds import find

COUNT_RUNS, DENSE_RUNS = 8, 7
"""How many prefills the exact counts of a cell take, and those of the dense model."""
COUNT_SHARE = 0.23
"""Beside their prefills, the counts of a cell spend this share of the time that the imports take: both are Python's. In
CPU time 2.0 to 2.1 s and 8.0 to 9.7 s, of `pocket` and of `pocket-deep`."""
FIXED_SHARE = 0.3
"""The share of a run that pruning does not shorten: the vision tower, the head and the fixed time of each layer."""
_UNKNOWN = {"eval": "the number of questions is known only after the tasks are loaded"}
"""The kinds whose time cannot be estimated from a few runs, with the reason."""


def _seconds(plan: Plan, kind: Kind, imports: float) -> float:
    """Return the expected seconds of a study after its model is loaded. A few runs of the dense model are timed.

    imports: the seconds that the imports of this process took.
    """
    study, workload = plan.study, plan.workload
    clock = clock_for(workload.device)
    rounds.run(workload, clock, "prefill")
    times = rounds.run(workload, clock, "generation")
    prefill, generation = times.prefill_ms / 1000, (times.total_ms or 0.0) / 1000
    shares = [cost_share(planned, workload.shape) for planned in plan.cells]
    counting = (DENSE_RUNS + COUNT_RUNS * sum(shares)) * prefill + (1 + len(shares)) * COUNT_SHARE * imports
    if kind.file != MEASUREMENTS:
        return counting + (study.seconds if "seconds" in kind.options else 0.0)
    draws = [fidelity.SEEDS if fidelity.selects_at_random(planned.method) else 1 for planned in plan.cells]
    answers = 1 + sum(draw * share for draw, share in zip(draws, shares, strict=True))
    # Each process runs some cells to warm up, and all of them in a round; the first one also lets them generate.
    a_round = sum(shares) + rounds.dense_runs(len(shares))
    least = a_round * (2 * prefill * (study.processes or 1) + generation)
    each = generation / (1 if workload.device.type == "cpu" else ASKED_TOGETHER) if workload.questions else prefill
    asking = answers * each * (len(workload.questions) or study.fidelity_inputs or 0)
    return counting + asking + max(study.seconds * len(study.blocks()), least)


def cost_share(planned: PlannedCell, shape: Shape) -> float:
    """Return the estimated time of a pruned run / a dense run, from the tokens in all layers, text included."""
    kept = sum(planned.schedule.tokens_by_layer) / shape.num_layers + shape.text_tokens
    return FIXED_SHARE + (1 - FIXED_SHARE) * kept / (shape.visual_tokens + shape.text_tokens)


def preview(study: Study, watch: Watch = ignore) -> Preview:
    """Return the cells that a study would measure, their work, and the expected time on this machine.

    The errors are those that the study itself raises before it measures.
    """
    kind = find(study.verb)
    watch(Step(f"loading {study.model}"))
    imports, start = time.process_time(), time.perf_counter()  # so far, this process has only imported the libraries
    plan, reason = _plan(study, kind)
    load = imports + time.perf_counter() - start
    seconds, reason = None, reason or _UNKNOWN.get(kind.name)
    if reason is None:
        watch(Step("timing a few runs of the dense model"))
        seconds = load + _seconds(plan, kind, imports)
    return Preview(
        environment=collect("cpu" if study.device == "meta" else study.device),
        study=study,
        shape=plan.workload.shape,
        cells=tuple(_cell(planned, plan) for planned in plan.cells),
        refused=tuple(Refusal(cell=record.cell, reason=record.reason or "") for record in plan.refused),
        reach=_reach(plan) if kind.file == MEASUREMENTS else "",
        seconds=seconds,
        seconds_reason=reason,
    )


def _reach(plan: Plan) -> str:
    known = sum(question.answer is not None for question in plan.workload.questions)
    return reach_of(known, deployable(plan), is_first=plan.study.asks_more)


def _plan(study: Study, kind: Kind) -> tuple[Plan, str | None]:
    """Return the plan, and the reason why nothing is timed; None if it is.

    A built-in model is planned without weights if it does not fit into the memory of this machine, or if it is large
    and runs on the CPU.
    """
    reason, facts = "the meta device runs nothing" if study.device == "meta" else None, models().get(study.model)
    try:
        if facts is not None and facts.parameters >= LARGE and study.device == "cpu":
            require_memory(facts.parameters, getattr(torch, study.dtype), torch.device("cpu"), study.model)
            reason = f"{study.model} is large, so it is not loaded for a dry run"
        return resolve(study, keep_refusals=kind.keep_refusals, weights=reason is None), reason
    except StudyError as error:
        if facts is None:
            raise
        return resolve(study, keep_refusals=kind.keep_refusals, weights=False), str(error)


def _cell(planned: PlannedCell, plan: Plan) -> PreviewCell:
    schedule = planned.schedule
    return PreviewCell(
        variant=planned.cell.variant,
        retention=planned.cell.retention,
        layer_average=schedule.layer_average,
        layers=schedule.layers,
        budgets=schedule.budgets,
        fastv_macs=planned.fastv_macs(plan.workload.shape, plan.study.gamma),
    )
