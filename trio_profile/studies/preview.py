"""The dry run: plan a study and time a few runs of its model. Nothing is written."""

import os
import time
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import linear

from trio_profile.analysis.preview import Preview, PreviewCell, PreviewRetention, RefusedCell
from trio_profile.cost.formula import decoder_macs
from trio_profile.engine.plan import Plan, PlannedCell, resolve
from trio_profile.errors import StudyError
from trio_profile.inputs.environment import collect
from trio_profile.inputs.models import LARGE, require_memory
from trio_profile.inputs.workload import ASKED_TOGETHER
from trio_profile.profilers import fidelity, rounds
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.facts import models
from trio_profile.records.files import MEASUREMENTS
from trio_profile.records.schema import Shape, Study
from trio_profile.stats.intervals import median
from trio_profile.studies.kind import Kind
from trio_profile.studies.kinds import find

COUNT_RUNS, DENSE_RUNS = 8, 14
"""How many prefills the exact counts of a cell take, and those of the dense model, which has new pictures too."""
COUNT_SHARE = 0.23
"""Beside their prefills, the counts of a cell spend this share of the time that the imports take: both are Python's. In
CPU time 2.0 to 2.1 s and 8.0 to 9.7 s, of `pocket` and of `pocket-deep`."""
FEW_QUESTIONS = 2
"""How many questions a CPU answers here. It needs as long for each as in a larger batch."""
SLOW_SECONDS = 0.5
"""If a product of matrices takes longer than this, it is estimated from an eighth of its rows."""
USEFUL_CORES = 0.75
"""Two processes of one thread each count in so much of the time that one of two threads takes: threads wait for each
other."""
FIXED_SHARE = 0.3
"""The share of a run that pruning does not shorten: the vision tower, the head and the fixed time of each layer."""
LARGE_SECONDS = 7e-9
"""The seconds for each random weight of a large model on a CPU: 10 s for 1.4 billion."""
_UNKNOWN = {"eval": "the number of questions is known only after the tasks are loaded"}
"""The kinds whose time cannot be estimated from a few runs, with the reason."""


@dataclass(frozen=True)
class Pace:
    """The seconds that the dense model needs.

    prefill, generation: for one of each.
    questions: for the answers to all questions; 0 without questions.
    python: for what the counts of one cell do beside their prefills.
    """

    prefill: float
    generation: float
    questions: float
    python: float

    @classmethod
    def of(cls, plan: Plan, clock: Clock, python: float) -> "Pace":
        """Time a few runs of the dense model. python: as the field."""
        workload = plan.workload
        rounds.run(workload, clock, "prefill")
        times = rounds.run(workload, clock, "generation")
        questions = times.prefill_ms / 1000 * (plan.study.fidelity_inputs or 0)
        if workload.questions:
            on_cpu = workload.device.type == "cpu"
            few = replace(workload, questions=workload.questions[: FEW_QUESTIONS if on_cpu else ASKED_TOGETHER])
            start = time.perf_counter()
            fidelity.reference(few, 0, plan.study.seed)
            questions = (time.perf_counter() - start) * len(workload.questions) / len(few.questions)
        return cls(times.prefill_ms / 1000, (times.total_ms or 0.0) / 1000, questions, python)

    @classmethod
    def by_work(cls, plan: Plan, python: float) -> "Pace":
        """Time products of matrices as the model has them, for a model that takes long to load and to run."""
        shape, dtype = plan.workload.shape, getattr(torch, plan.study.dtype)
        tokens = shape.visual_tokens + shape.text_tokens

        def seconds(rows: int) -> float:
            """Return the seconds of one token in all layers, if so many rows go through a product at once."""
            weights = [torch.ones(shape.intermediate, shape.hidden, dtype=dtype) for _ in range(3)]

            def product(weight: torch.Tensor, rows: int) -> float:
                row_block, start = torch.ones(rows, shape.hidden, dtype=dtype), time.perf_counter()
                linear(row_block, weight)
                return (time.perf_counter() - start) / rows

            one = product(weights[0], max(rows // 8, 1))
            if one * rows < SLOW_SECONDS:
                one = median([product(weight, rows) for weight in 2 * weights])  # in turn: none is in the cache
            return one * decoder_macs([1] * shape.num_layers, shape) / weights[0].numel()

        prefill = seconds(tokens) * tokens * shape.batch
        steps = plan.workload.new_tokens - 1
        return cls(prefill, prefill + steps * seconds(1), prefill * (plan.study.fidelity_inputs or 0), python)

    def counting(self, plan: Plan) -> float:
        """Return the seconds of all exact counts."""
        shares = [cost_share(planned, plan.workload.shape) for planned in plan.cells]
        return (DENSE_RUNS + COUNT_RUNS * sum(shares)) * self.prefill + (1 + len(shares)) * self.python

    def cells(self, plan: Plan) -> float:
        """Return the seconds of a study of cells: its counts and answers on all cores, then its times."""
        study, shape, on_cpu = plan.study, plan.workload.shape, plan.study.device.startswith("cpu")
        answers = self.questions
        for planned in plan.cells:
            draws = fidelity.SEEDS if fidelity.selects_at_random(planned.method) else 1
            answers += draws * cost_share(planned, shape) * self.questions
        # The runs above used all cores, as all processes that count do together.
        cores = (os.cpu_count() or 1) if on_cpu and study.processes != 1 else 1
        counting = (self.counting(plan) + answers) * (USEFUL_CORES if cores > 1 else 1)
        # Each process runs some cells to warm up, and all of them in a round; the first one also lets them generate.
        a_round = sum(cost_share(planned, shape) for planned in plan.cells) + rounds.dense_runs(len(plan.cells))
        least = a_round * (2 * self.prefill * (study.processes or 1) + self.generation)
        return counting + max(study.seconds * len(study.blocks()), least)

    def prefills(self, plan: Plan, kind: Kind) -> float:
        """Return the seconds of a study of one prefill: its counts, and its sampling if the kind takes `--seconds`."""
        return self.counting(plan) + (plan.study.seconds if "seconds" in kind.options else 0.0)


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
        if plan.workload.device.type == "meta":
            pace = Pace.by_work(plan, COUNT_SHARE * imports)
            load += models()[study.model].parameters * LARGE_SECONDS
        else:
            clock = clock_for(plan.workload.device)
            pace = Pace.of(plan, clock, COUNT_SHARE * imports)
        seconds = load + (pace.cells(plan) if kind.file == MEASUREMENTS else pace.prefills(plan, kind))
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

    A built-in model is planned without weights if it does not fit into the memory of this machine, or if it is large
    and runs on the CPU.
    """
    if study.device == "meta":
        return resolve(study, keep_refusals=kind.keep_refusals, weights=False), "the meta device runs nothing"
    facts = models().get(study.model)
    try:
        is_large = facts is not None and facts.parameters >= LARGE and study.device == "cpu"
        if facts is not None and is_large:
            require_memory(facts.parameters, getattr(torch, study.dtype), torch.device("cpu"), study.model)
        return resolve(study, keep_refusals=kind.keep_refusals, weights=not is_large), None
    except StudyError as error:
        if study.model not in models():
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
