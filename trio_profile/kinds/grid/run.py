"""Measure a study of cells: first the counts and answers, on all hosts at once; then the times.

One process after another times all cells, and nothing else runs meanwhile on its cores. Timing ends when every interval
is as narrow as asked, or when its time is spent. Only this process writes to the log.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trio_profile import units
from trio_profile.engine.hosts import Engine, Host, ThisMachine, drive
from trio_profile.engine.orders import USUAL_RATIO, Allowance, Event, Order, Share
from trio_profile.engine.processes import require_known_methods
from trio_profile.engine.shares import Parts, shares_of, together
from trio_profile.errors import MeasurementError, StudyError
from trio_profile.inputs.host import command_line
from trio_profile.judge.times import round_over_process, spent_seconds, widest
from trio_profile.kinds.grid.verdict import next_questions, undecided
from trio_profile.progress import Step, Watch, ignore
from trio_profile.records.contents import Contents
from trio_profile.records.differences import ONE_KIND, require_same, require_same_environment, require_same_inputs
from trio_profile.records.schema import Answers, Round, Session, Study
from trio_profile.records.store import Store
from trio_profile.records.study import MOST_PROCESSES, PROCESSES

ASKING_SHARE = 1.0
"""Further questions take at most this share of the time that is for timing."""
MOST_CELLS = 4
"""So many cells are asked further questions at once."""
WORTH_STARTING = 0.5
"""Another process begins if this share of what the last one took is left of the time."""


def run(
    study: Study,
    directory: Path,
    watch: Watch = ignore,
    *,
    keep_refusals: bool = False,
    engine: Engine | None = None,
) -> Contents:
    """Measure what the directory does not hold yet. Return the contents of its log.

    A study of one process is measured in this one, because the user may want that: to measure a method of a script.

    watch: called with each step.
    keep_refusals: whether a refused cell becomes a record. Otherwise nothing is measured if a method refuses a cell.
    engine: whose hosts measure. None: this machine.
    Raises StoreError if the directory holds another study, or if a host is unlike the first session's. Raises
    StudyError, a TrioError or MeasurementError if the study cannot be measured; what was measured before is kept.
    """
    store = Store(directory)
    contents = store.read() if store.exists() else Contents(study)
    require_same("study", contents.study.identity(), study.identity(), directory)  # before a model is loaded
    contents.study = study
    if is_counted(study, contents) and is_timed(study, contents) and not to_ask(study, contents)[0]:
        from trio_profile.inputs.digest import input_digests
        from trio_profile.inputs.environment import collect

        return store.require(study, collect(study.device, fresh=not is_in_this_process(study)), input_digests(study))
    with ExitStack() as stack:
        if engine is not None or not is_in_this_process(study):
            require_known_methods(study)
            engine = engine or stack.enter_context(ThisMachine())
        return _Run(study, store, contents, watch, engine, keep_refusals=keep_refusals).measure()


def is_in_this_process(study: Study) -> bool:
    """Return whether a study is measured in this process: the user asks for one process."""
    return study.processes == 1


def uncounted(study: Study, contents: Contents) -> list[str]:
    """Return the ids of the cells that are not counted yet, and were not refused. Those that failed count again."""
    ended = {name for name, cell in contents.cells.items() if cell.counted is not None or cell.status == "refused"}
    return [cell.id for cell in study.cells() if cell.id not in ended]


def is_counted(study: Study, contents: Contents) -> bool:
    """Return whether every cell is counted or refused, and the dense model is counted."""
    return contents.dense is not None and not uncounted(study, contents)


def is_timed(study: Study, contents: Contents, skip: Collection[str] = (), begun: int = 0) -> bool:
    """Return whether no further process is to begin: every interval is as narrow as asked, or the time is spent.

    skip: ids of cells that failed, and are not tried again now.
    begun: how many processes have begun; fewer than those that have measured count as these.
    """
    counted = [cell for name, cell in contents.cells.items() if cell.counted is not None and name not in skip]
    if not counted:
        return True  # there is nothing to time
    timed = len({measured.session for measured in contents.rounds})
    begun = max(begun, timed)
    if begun > timed and begun >= (study.processes or MOST_PROCESSES):
        return True  # those that run now may complete it
    if any(not cell.pairs or cell.reason is not None for cell in counted):
        return False
    if study.processes is not None:
        return begun >= study.processes
    if timed >= PROCESSES and widest(contents) <= study.precision:
        return True
    each = spent_seconds(contents) / timed
    return begun >= MOST_PROCESSES or each * (begun + WORTH_STARTING) > whole_seconds(study)


def whole_seconds(study: Study) -> float:
    """Return the seconds of all processes that time a study."""
    return study.seconds * len(study.blocks())


def to_ask(study: Study, contents: Contents) -> tuple[list[str], int]:
    """Return the cells that are asked further questions, and how many each has then answered in all.

    The cells are those that may be chosen. If the time is not enough for all, those that lost least so far are asked.
    The dense model is asked the same. There is no cell when the loss is decided, when the time is up, and after the
    last look at the answers.
    """
    number = next_questions(contents) if study.asks_more else None
    if number is None:
        return [], 0
    left = ASKING_SHARE * whole_seconds(study) - contents.asking_seconds
    each = contents.asking_seconds / contents.further_answers if contents.further_answers else 0.0
    more = number - contents.question_counts[-1]
    fit = left / (each * more) - 1 if each else MOST_CELLS  # one share is the dense model's
    return undecided(contents)[: max(int(min(fit, MOST_CELLS)), 0)], number


@dataclass
class _Run:
    """One run of a study: it gives orders to hosts, and writes what they tell.

    engine: whose hosts measure; None for this process.
    """

    study: Study
    store: Store
    contents: Contents
    watch: Watch
    engine: Engine | None
    keep_refusals: bool
    _loaded: Any = None  # the model of this process, without an engine
    _begin: float = field(default_factory=time.monotonic)
    _counting_seconds: float = 0.0

    def measure(self) -> Contents:
        """Count and ask, then time. Then ask more, where the answers do not decide yet."""
        if not is_counted(self.study, self.contents):
            self._count()
        self._counting_seconds = time.monotonic() - self._begin
        self._time()
        self._ask()
        failed = [cell for cell in self.contents.cells.values() if cell.reason is not None and cell.counted is not None]
        self.watch(Step(f"{units.number_of(len(failed), 'cell')} failed" if failed else "all cells are measured"))
        return self.contents

    def _count(self) -> None:
        """Count and ask on all hosts, and write each record that is complete. All belong to the first session."""
        hosts = self.engine.counting(self.study) if self.engine else []
        shares = max(len(hosts), 1)
        cells = uncounted(self.study, self.contents)
        needs_dense = self.contents.dense is None
        needs_picture = bool(cells) and self.contents.picture is None
        counts = shares_of(cells, shares, with_dense=needs_dense)
        orders = [
            self._order(
                number=number,
                share=Share(
                    number=number,
                    of=shares,
                    counts=tuple(counts[number]),
                    answers=tuple(cells),
                    dense=needs_dense and number == 0,
                    picture=needs_picture and number == 0,
                ),
            )
            for number in range(shares)
        ]
        parts, sessions, progress = Parts(shares), list[Session](), [0.0] * shares

        def handle(order: Order, event: Event) -> None:
            if isinstance(event, Step):
                progress[order.number] = event.done / event.total if event.total else progress[order.number]
                self._show_counting(event.text, min(progress))
            elif isinstance(event, Session):
                sessions.append(event)
                if len(sessions) == 1:
                    self._open(event)
                else:
                    self._require_like(event)
            else:
                for record in parts.add(order.number, event):
                    self._write(record)

        left = iter(orders)
        self._drive(hosts, lambda: next(left, None), handle)

    def _time(self) -> None:
        """Let one process after another on each host time all cells, until timing has ended."""
        hosts = self.engine.timing(self.study) if self.engine else []
        tried, rounds, sessions = set[str](), dict[int, int](), dict[int, str]()
        number = len({measured.session for measured in self.contents.rounds})
        spent, begin = spent_seconds(self.contents), time.monotonic()

        def next_order() -> Order | None:
            nonlocal number
            if is_timed(self.study, contents := self.contents, tried, number):
                return None
            cells = [name for name, cell in contents.cells.items() if cell.counted is not None and name not in tried]
            number += 1
            rounds[number] = 0
            whole = whole_seconds(self.study)
            allowance = Allowance(
                left=max(whole - spent_seconds(contents), 0.0) / len(rounds),
                whole=whole,
                generating=sum(measured.seconds for measured in contents.rounds if measured.generates),
                processes=self.study.processes,
                ratio=round_over_process(contents) or USUAL_RATIO,
            )
            return self._order(times=tuple(cells), allowance=allowance, number=number)

        def handle(order: Order, event: Event) -> None:
            if isinstance(event, Step):
                seconds = spent + (time.monotonic() - begin) * max(len(hosts), 1)
                self._show(f"process {order.number}: {event.text}", seconds)
            elif isinstance(event, Session):
                self._open(event)
                sessions[order.number] = event.id
            else:
                rounds[order.number] += isinstance(event, Round)
                self.store.session = sessions[order.number]
                self._write(event)

        def done(order: Order) -> None:
            # A cell that failed in this run is not tried again by the next process.
            tried.update(name for name, cell in self.contents.cells.items() if cell.reason is not None)
            if not rounds.pop(order.number) and not tried.intersection(order.times):
                raise MeasurementError(
                    f"process {order.number} measured nothing in {self.store.directory}: measure again"
                )

        self._drive(hosts, next_order, handle, done)

    def _ask(self) -> None:
        """Ask more questions of the cells that may be chosen, until their loss is decided or the time is up."""
        while True:
            cells, questions = to_ask(self.study, self.contents)
            if not cells or self.contents.dense is None:
                return
            begin, whole = time.monotonic(), whole_seconds(self.study)
            self._show(f"asking {units.number_of(len(cells), 'cell')} up to {questions} questions", whole)
            try:
                arrived = self._further(cells, questions)
            except (StudyError, MeasurementError) as error:  # what a later question lacks takes nothing away
                self.watch(Step(f"no more questions are asked: {error}"))
                return
            answers = together(arrived.get("", ())).after(len(self.contents.dense.correct))
            if answers is None:
                return  # there are no more questions
            self._write(answers.model_copy(update={"seconds": time.monotonic() - begin}))
            for name in cells:
                fidelity = self.contents.cells[name].fidelity
                own = together(arrived.get(name, ())).after(0 if fidelity is None else fidelity.questions)
                if own is not None:
                    self._write(own)

    def _further(self, cells: Sequence[str], questions: int) -> dict[str, list[Answers]]:
        """Let all hosts ask these cells up to so many questions. Return what arrived, by the id of the cell."""
        hosts = self.engine.counting(self.study) if self.engine else []
        shares, arrived, sessions = max(len(hosts), 1), dict[str, list[Answers]](), list[Session]()
        answered = [fidelity.questions for name in cells if (fidelity := self.contents.cells[name].fidelity)]
        study = self.study.model_copy(update={"fidelity_inputs": questions})
        left = iter(
            self._order(
                study=study,
                number=number,
                share=Share(
                    number=number, of=shares, first=min(answered), answers=tuple(cells), dense=False, picture=False
                ),
            )
            for number in range(shares)
        )

        def handle(order: Order, event: Event) -> None:  # noqa: ARG001 - as `drive` calls it
            if isinstance(event, Session):
                sessions.append(event)
                self._require_like(event)
            elif isinstance(event, Answers):
                arrived.setdefault(event.cell, []).append(event)

        self._drive(hosts, lambda: next(left, None), handle)
        self._open(sessions[0])
        return arrived

    def _drive(
        self,
        hosts: Sequence[Host],
        next_order: Callable[[], Order | None],
        handle: Callable[[Order, Event], None],
        done: Callable[[Order], None] = lambda _: None,
    ) -> None:
        """Give orders to hosts, or carry them out in this process, in the thread of the user."""
        if self.engine is not None:
            drive(hosts, next_order, handle, done)
            return
        from trio_profile.engine import measuring

        def say(order: Order, events: Sequence[Event]) -> None:
            for event in events:
                handle(order, event)

        self._loaded = self._loaded or measuring.Loaded()
        while (order := next_order()) is not None:
            measuring.measure([order], partial(say, order), self._loaded)
            done(order)

    def _order(self, **fields: Any) -> Order:
        cells = self.contents.cells.items()
        stages = {name: (cell.layers, cell.budgets) for name, cell in cells if cell.counted is not None}
        usual = {
            "study": self.study,
            "command": command_line(),
            "keep_refusals": self.keep_refusals,
            "stages": stages,
        }
        return Order(**{**usual, **fields})

    def _open(self, session: Session) -> None:
        """Begin a session: the first one of this run opens the log."""
        if self.store.session:
            self._require_like(session)
            self.contents.add(session)
            self.store.append(session)
            self.store.session = session.id
        else:
            self.contents = self.store.open(self.study, session)

    def _require_like(self, session: Session) -> None:
        """Raise StoreError if a host is of another kind than the first one, or sees other files."""
        first, directory = self.contents.sessions[:1], self.store.directory
        require_same_environment(first, session.environment, directory, ONE_KIND)
        require_same_inputs(self.study, first, session.inputs, directory)

    def _write(self, record: Any) -> None:
        self.contents.add(*self.store.append(record))

    def _show_counting(self, text: str, share: float) -> None:
        """Show a step of the counting. share: how much of it is done."""
        done = time.monotonic() - self._begin
        whole = done / share if share else 0.0
        self.watch(Step(text, done if whole else 0.0, whole + whole_seconds(self.study) if whole else 0.0))

    def _show(self, text: str, spent: float) -> None:
        """Show a step of the timing. spent: its seconds so far."""
        whole = whole_seconds(self.study)
        self.watch(Step(text, self._counting_seconds + min(spent, whole), self._counting_seconds + whole))
