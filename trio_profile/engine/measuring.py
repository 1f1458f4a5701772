"""Measure in one process: some of the counts and answers of a study, or rounds of its cells.

Everything is told as soon as it is measured. A process that counts or asks questions times nothing, because it is
slower afterwards by some percent. Only a study of one process does both in it.

`load` and `measure` are the tasks of a process (`processes.TASKS`). Requests are orders, and an answer is a list of
events.
"""

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch

from trio_core.errors import MethodError, TrioError
from trio_profile.engine.counting import count, failure_of, measure_dense
from trio_profile.engine.orders import Allowance, Order, Part, Share
from trio_profile.engine.plan import Plan, PlannedCell, deployable, resolve
from trio_profile.engine.processes import Say
from trio_profile.errors import StoreError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.digest import input_digests
from trio_profile.inputs.environment import open_session
from trio_profile.inputs.picture import picture_of
from trio_profile.inputs.questions import known_of
from trio_profile.inputs.workload import Workload, questions_of
from trio_profile.judge.reach import reach_of
from trio_profile.profilers import fidelity, gpu, rounds
from trio_profile.profilers.clock import Clock, clock_for
from trio_profile.progress import Step
from trio_profile.records.schema import Answers, Dense, Measurement, Picture, Round, Session
from trio_profile.records.study import PROCESSES
from trio_profile.records.timing import RunPhase

MOST_ROUNDS = 200
"""A process measures at most so many rounds."""
GENERATION_SHARE = 0.15
"""The share of the time for rounds of generations. Their ratio varies less than that of prefills, and matters less."""
SLOWED_PAUSE = 1.0
"""After a round that was discarded, the GPU gets so many seconds to cool."""
SEND_SECONDS = 5.0
"""How often rounds are sent."""
DISCARDED_SHARE = 0.25
"""If discarded rounds and pauses took this share of a process's time, all further rounds count."""

Report = Callable[[str, int, int], None]
"""Called with what is measured now, how much of it is done, and of how much."""


@dataclass(frozen=True)
class Opened:
    """A model in a process that measures a session.

    session: describes the process.
    plan: the study with its model, its input and its cells.
    """

    session: Session
    plan: Plan
    clock: Clock

    @property
    def workload(self) -> Workload:
        """The model with its input."""
        return self.plan.workload


@dataclass
class Loaded:
    """The study that a process has loaded; None before."""

    plan: Plan | None = None


_LOADED = Loaded()
"""That of the server, and of the processes that it forks."""


def load(order: Order) -> None:
    """Load the model of an order into this process, once. The processes that it forks have it."""
    if _LOADED.plan is None:
        _LOADED.plan = resolve(order.study, keep_refusals=order.keep_refusals)


def measure(orders: Iterable[Order], say: Say, loaded: Loaded = _LOADED) -> None:
    """Carry out orders, one after another, in one session.

    say: takes a list of events.
    loaded: the model, for all calls with the same one.
    Raises StoreError if a cell that was counted before would now be pruned otherwise.
    """
    opened: Opened | None = None
    for order in orders:
        if opened is None:
            say([Step(f"loading {order.study.model}")])
            opened = open_process(order, loaded.plan)
            loaded.plan = opened.plan
            say([opened.session])
            _require_same_stages(opened.plan, order.stages)  # a file that has changed is named first
        if order.one_thread:
            torch.set_num_threads(1)
        _tell(_measured(order, opened, lambda *step: say([Step(*step)])), say)


def _tell(records: Iterable[Part], say: Say) -> None:
    """Send records. Rounds are sent together, so that the process that writes them seldom disturbs this one."""
    waiting: list[Part] = []
    last = time.perf_counter()
    try:
        for record in records:
            waiting.append(record)
            if not isinstance(record, Round) or time.perf_counter() - last > SEND_SECONDS:
                say(waiting)
                waiting, last = [], time.perf_counter()
    finally:
        say(waiting)


def _measured(order: Order, opened: Opened, report: Report) -> Iterator[Part]:
    timed = set(order.times)
    if order.share is not None:
        for part in count_share(opened, order.share, report):
            yield part
            if isinstance(part, Measurement) and part.status != "counted":
                timed.discard(part.cell.id)
    if order.allowance is not None:
        seed, blocks = f"{order.study.seed} {order.number}", blocks_of(opened.plan, timed)
        yield from Timer(opened, blocks, seed, report).measure(order.allowance)


def open_process(order: Order, plan: Plan | None = None) -> Opened:
    """Load the model of an order and describe this process.

    plan: the loaded study, if this process was forked from one that has loaded it.
    Raises StudyError or a TrioError if the study cannot be measured.
    """
    study = order.study
    if (builtin := BUILTIN.get(study.model)) is not None and builtin.checkpoint is not None:
        builtin.checkpoint()  # to make it takes none of the study's time
    session, start = open_session(study.device, order.command), time.perf_counter()
    plan = plan or resolve(study, keep_refusals=order.keep_refusals)
    if plan.study.fidelity_inputs != study.fidelity_inputs:  # it was loaded to ask fewer questions
        questions = questions_of(study, plan.workload.processor)
        plan = replace(plan, study=study, workload=replace(plan.workload, questions=questions))
    clock = clock_for(plan.workload.device)
    # The digests come after loading, because a model of the hub may have no files before.
    opened = {"load_seconds": time.perf_counter() - start, "inputs": input_digests(study), "engine": order.engine}
    return Opened(session.model_copy(update=opened), plan, clock)


def _require_same_stages(plan: Plan, before: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    """Raise StoreError if a cell would be pruned otherwise than when it was counted."""
    for planned in plan.cells:
        now = planned.schedule
        layers, budgets = before.get(planned.cell.id, (now.layers, now.budgets))
        if _drops(layers, budgets, now.visual_tokens) != _drops(now.layers, now.budgets, now.visual_tokens):
            raise StoreError(
                f"{planned.cell.variant} at {planned.cell.retention:g} was counted with {budgets} tokens after layers "
                f"{layers}, and would now keep {now.budgets} after {now.layers}: choose another --out"
            )


def _drops(layers: tuple[int, ...], budgets: tuple[int, ...], visual_tokens: int) -> list[tuple[int, int]]:
    """Return the layer and the budget of each stage that drops a token. The others make no difference."""
    ladder = zip(layers, pairwise((visual_tokens, *budgets)), strict=True)
    return [(layer, kept) for layer, (had, kept) in ladder if kept != had]


# Counts and answers


def count_share(opened: Opened, share: Share, report: Report) -> Iterator[Dense | Picture | Measurement | Answers]:
    """Count some cells, and ask some questions of all. Yield each part as soon as it is there.

    A cell that runs out of memory does not stop the others.
    Raises a TrioError if a method refuses a cell and refusals are not recorded.
    """
    study, workload = opened.plan.study, opened.workload
    rounds.run(workload, opened.clock, "prefill")
    reference = _reference(opened, share, report)
    if share.dense:
        report("dense: counting", 0, 0)
        yield measure_dense(workload)
    if share.picture:
        yield picture_of(workload, keep=study.picture)
    yield _dense_answers(workload, share, reference) if reference else Answers()
    for refusal in opened.plan.refused:
        if refusal.cell.id in share.counts:
            yield refusal
    planned_cells = [planned for planned in opened.plan.cells if planned.cell.id in {*share.counts, *share.answers}]
    for number, planned in enumerate(planned_cells):
        name = f"{planned.cell.variant} at {planned.cell.retention:g}"
        report(f"{name}: counting and asking", number, len(planned_cells))
        yield from _count_cell(opened, share, planned, reference)


def _dense_answers(workload: Workload, share: Share, reference: fidelity.Reference) -> Answers:
    """Return the dense model's answers. Of further questions also what is known of all."""
    further = known_of(workload.questions) if share.first else {}
    return Answers(numbers=reference.numbers, correct=reference.correct, **further)


def _count_cell(
    opened: Opened, share: Share, planned: PlannedCell, reference: fidelity.Reference | None
) -> Iterator[Measurement | Answers]:
    try:
        if planned.cell.id in share.counts:
            fields = count(opened.workload, planned, opened.plan.study)
            fields["energy"] = gpu.measure_energy(opened.workload, planned.method)
            yield Measurement(cell=planned.cell, status="counted", **fields)
        numbers = reference.numbers if reference else ()
        answers = fidelity.measure(planned.method, reference) if reference and numbers else None
        yield Answers(cell=planned.cell.id, numbers=numbers, fidelity=answers)
    except Exception as error:
        if not isinstance(error, TrioError) or isinstance(error, MethodError):
            yield failure_of(planned.cell, error)
        elif opened.plan.keep_refusals:
            yield Measurement(cell=planned.cell, status="refused", reason=str(error))
        else:
            raise


def _reference(opened: Opened, share: Share, report: Report) -> fidelity.Reference | None:
    """Return the dense model's answers; None if there are no questions or pictures."""
    study = opened.plan.study
    if not (opened.workload.questions or study.fidelity_inputs):
        return None
    # The user's own picture or prompt is the only input: random pictures would be other questions.
    is_own_input = any(value is not None for value in (study.image, study.video, study.prompt))
    if share.number == share.first == 0:
        known = sum(question.answer is not None for question in opened.workload.questions)
        report(reach_of(known, deployable(opened.plan), is_first=study.asks_more), 0, 0)
    return fidelity.reference(
        opened.workload,
        1 if is_own_input else study.fidelity_inputs or 0,
        study.seed,
        lambda done, total: report(f"dense: {done} of {total} questions", 0, 0),
        first=share.first,
        share=share.number,
        shares=share.of,
    )


# Rounds


@dataclass
class Timer:
    """Times the blocks of a study in this process, one round after another.

    blocks: the cells of each block.
    seed: of the orders. Each session has another one.
    _lost, _most_lost: seconds of discarded rounds and pauses, and how many this process may spend on them.
    """

    opened: Opened
    blocks: Sequence[Sequence[PlannedCell]]
    seed: str
    report: Report = lambda *_: None
    _draw: random.Random = field(init=False)
    _lost: float = 0.0
    _most_lost: float = 0.0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._gpu = rounds.gpu_of(self.opened.workload)
        self._cells = [{planned.cell.id: planned for planned in block} for block in self.blocks]

    def measure(self, allowance: Allowance) -> Iterator[Round | Measurement]:
        """Warm up, and measure rounds for as long as this process may. Yield each round, and each cell that fails.

        The first round is one of generations, while those have had less than their share of the time.
        """
        begin = time.perf_counter() - self.opened.session.load_seconds
        usual, spent = allowance.whole / (allowance.processes or PROCESSES), allowance.whole - allowance.left
        self._most_lost = DISCARDED_SHARE * usual
        generates = allowance.generating <= GENERATION_SHARE * (spent + usual)
        with rounds.quiet():
            for cells in self._cells:
                yield from self._warm_up(cells, "generation" if generates else "prefill")
            overhead = time.perf_counter() - begin
            if generates:
                for cells in self._cells:
                    yield from self._round(cells, "generation")
            start = last = time.perf_counter()
            end = start
            for number in range(1, MOST_ROUNDS + 1):
                for cells in self._draw.sample(self._cells, len(self._cells)):
                    yield from self._round(cells, "prefill")
                self.report(f"round {number}", 0, 0)
                now = time.perf_counter()
                if number == 1:
                    end = start + allowance.seconds(overhead, now - start)
                if now + 0.5 * (now - last) > end:
                    return
                last = now

    def _warm_up(self, cells: dict[str, PlannedCell], phase: RunPhase) -> Iterator[Round | Measurement]:
        """Run what the next round times. It takes longer for the first time in a process, and at a new length.

        For prefills on a CPU one cell of each method suffices: there a new length costs little.
        """
        if phase == "prefill" and self.opened.workload.device.type == "cpu":
            first = {planned.cell.method: name for name, planned in reversed(cells.items())}
            cells = {name: cells[name] for name in first.values()}
        yield from self._round(cells, phase, is_warm_up=True)

    def _round(
        self, cells: dict[str, PlannedCell], phase: RunPhase, *, is_warm_up: bool = False
    ) -> Iterator[Round | Measurement]:
        """Measure one round. A cell that fails is left out of all further ones, and the round is measured again."""
        while cells:
            begin = time.perf_counter()
            methods = {name: planned.method for name, planned in cells.items()}
            try:
                measured = rounds.measure(
                    self.opened.workload, methods, phase, self._draw, self.opened.clock, self._gpu
                )
            except rounds.CellFailed as failed:
                error = failed.__cause__
                assert isinstance(error, Exception)
                yield failure_of(cells.pop(failed.cell).cell, error)
                for block in self._cells:
                    block.pop(failed.cell, None)
                continue
            if is_warm_up or not measured.discarded or self._lost >= self._most_lost:
                recorded = "warm-up" if is_warm_up else phase
                yield measured.model_copy(update={"phase": recorded, "discarded": False})
                return
            yield measured
            self._rest()
            self._lost += time.perf_counter() - begin

    def _rest(self) -> None:
        """Let the GPU cool. Then it runs one prefill, because an idle GPU lowers its clock."""
        time.sleep(SLOWED_PAUSE)
        rounds.run(self.opened.workload, self.opened.clock, "prefill")


def blocks_of(plan: Plan, cells: Collection[str]) -> list[list[PlannedCell]]:
    """Return the planned cells of each block of a study. cells: ids of those that are timed."""
    planned = {timed.cell.id: timed for timed in plan.cells if timed.cell.id in cells}
    blocks = [[planned[cell.id] for cell in block if cell.id in planned] for block in plan.study.blocks().values()]
    return [block for block in blocks if block]
