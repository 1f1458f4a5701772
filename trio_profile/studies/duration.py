"""The expected time of a study, estimated from a few runs of its model on this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from trio_profile.inputs.workload import ASKED_TOGETHER, Workload
from trio_profile.profilers import fidelity, flops_counted, kv_cache, latency, launches, memory
from trio_profile.profilers.clock import Clock
from trio_profile.progress import Step, Watch
from trio_profile.records.schema import Shape, Study
from trio_profile.studies import sessions
from trio_profile.studies.kinds import find
from trio_profile.studies.plan import Plan, PlannedCell

FIXED_SHARE = 0.3
"""The share of a run that pruning does not shorten: the vision tower, the head and the fixed time of each layer."""
_WARM_UP_ROUNDS = 1.5
_DISTINCT_RUNS = 13
"""The number of dense runs with pictures that the model has not seen before."""


@dataclass(frozen=True)
class Pace:
    """The seconds that the dense model needs.

    generation: for a prefill and all new tokens.
    count: for all exact counts.
    questions: for the answers to all questions; 0 without questions.
    load: for loading the model.
    """

    generation: float
    count: float
    questions: float = 0.0
    load: float = 0.0

    def dense(self) -> float:
        """Return the seconds of all measurements of the dense model."""
        return self.count + _DISTINCT_RUNS * self.generation + self.questions

    def parts(self, planned: PlannedCell, shape: Shape, seconds: float, least_pairs: int) -> tuple[float, float, float]:
        """Return the seconds of one cell in one session by part: counts; questions; warm-up and pairs.

        seconds: for how long the session samples the cell.
        least_pairs: the least number of pairs, however long they take.
        """
        share = cost_share(planned, shape)
        draws = fidelity.SEEDS if fidelity.selects_at_random(planned.method) else 1
        pair = self.generation * (1 + share)
        pairs = max(seconds, least_pairs * pair)
        return self.count, draws * share * self.questions, _WARM_UP_ROUNDS * pair + pairs


def cost_share(planned: PlannedCell, shape: Shape) -> float:
    """Return the estimated time of a pruned run / a dense run, from the tokens in all layers, text included."""
    kept = sum(planned.schedule.tokens_by_layer) / shape.num_layers + shape.text_tokens
    return FIXED_SHARE + (1 - FIXED_SHARE) * kept / (shape.visual_tokens + shape.text_tokens)


def measure(plan: Plan, clock: Clock, watch: Watch, load: float = 0.0) -> Pace:
    """Time a few runs of the dense model. load: seconds that loading the model took."""
    workload = plan.workload
    watch(Step("timing a few runs of the dense model"))
    latency.run(workload, clock)
    generation = _seconds(lambda: latency.run(workload, clock))
    count = _seconds(lambda: count_everything(workload))
    return Pace(generation, count, _questions(workload, plan.study), load)


def import_seconds() -> float:
    """Return the CPU time of this process so far. At the start of a command it is the import of the libraries."""
    return time.process_time()


def count_everything(workload: Workload) -> None:
    """Run all exact counts of the dense model once."""
    flops_counted.measure(workload, None)
    memory.measure(workload, None)
    launches.measure(workload, None)
    kv_cache.measure(workload, None)


def seconds_of_cells(plan: Plan, pace: Pace) -> float:
    """Return the seconds of a study of cells. Each process loads the model and times cells; one more only counts."""
    study, shape = plan.study, plan.workload.shape
    processes = sessions.choose_processes(study, pace.load)
    least = sessions.least_pairs(processes)
    once, each = pace.dense() + pace.load * (processes > 1), pace.load
    for planned in plan.cells:
        counts, questions, times = pace.parts(planned, shape, study.cell_seconds / processes, least)
        once += counts + questions
        each += times
    return once + processes * each


def seconds_of_prefill(plan: Plan, pace: Pace) -> float:
    """Return the seconds of a study of one prefill: its counts, and its sampling if the kind takes `--seconds`."""
    samples, cells = "seconds" in find(plan.study.verb).options, max(1, len(plan.cells))
    return pace.load + (1 + cells) * pace.count + (1.25 * cells * plan.study.cell_seconds if samples else 0.0)


def _questions(workload: Workload, study: Study) -> float:
    """Return the seconds of all questions, estimated from a few of them."""
    if workload.questions:
        few = workload.with_questions(workload.questions[: 2 * ASKED_TOGETHER])
        fidelity.reference(few, 0, study.seed)
        spent = _seconds(lambda: fidelity.reference(few, 0, study.seed))
        return spent * len(workload.questions) / len(few.questions)
    return _seconds(workload.prefill) * (study.fidelity_inputs or 0)


def _seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
