"""The orders to a measuring process, and its answers.

Nothing here imports torch.
"""

from math import sqrt

from pydantic import Field

from trio_profile.progress import Step
from trio_profile.records.record import Record
from trio_profile.records.schema import Answers, Dense, Measurement, Picture, Round, Session, Study
from trio_profile.records.study import PROCESSES

USUAL_RATIO = 2.0
"""The variance of a round / the variance of a process, before a study knows its own. In four sweeps of `pocket` on two
shared cores it was 0.5 to 1.6, which `judge/times.py` counts as 2."""

Part = Dense | Picture | Measurement | Answers | Round
"""A record of the log, or a part of one."""
Event = Session | Step | Part
"""An answer of a process. The first one is its session."""


class Share(Record):
    """The part of the counts and questions that one of several processes takes.

    number, of: which share of the questions.
    first: number of the first question that is asked.
    counts: ids of the cells that it counts.
    answers: ids of the cells that answer its questions.
    dense: whether it counts the dense model.
    picture: whether it describes the picture.
    """

    number: int = 0
    of: int = 1
    first: int = 0
    counts: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    dense: bool = True
    picture: bool = True


class Allowance(Record):
    """How long a process may time a study.

    left: seconds that all processes have left.
    whole: seconds of all processes together, from the first one.
    generating: seconds that rounds of generations have taken before.
    processes: how many processes share the time; None for as many as are best.
    ratio: the variance of a round / the variance of a process.
    """

    left: float
    whole: float
    generating: float = 0.0
    processes: int | None = None
    ratio: float = USUAL_RATIO

    def seconds(self, overhead: float, round_seconds: float) -> float:
        """Return for how long this process measures rounds.

        The best number of rounds is √(cost of a process / cost of a round · variance of a round / variance of a
        process) [Kalibera & Jones 2013]. It is fewer if that lets PROCESSES fit into the time, because an interval over
        few processes is wide.

        overhead: seconds until the first round.
        round_seconds: seconds of a round of prefills.
        """
        if self.processes is not None:
            return max(self.whole / self.processes - overhead, 0.0)
        best = round_seconds * max(sqrt(overhead / round_seconds * self.ratio), 1.0)
        share = self.whole / PROCESSES - overhead
        if share >= round_seconds:
            best = min(best, share)
        return max(min(best, self.left - overhead), 0.0)


class Order(Record):
    """The order to one process. An order without a share and without times loads the model, and no more.

    command: the command line that the user gave.
    keep_refusals: whether a refused cell becomes a record. Otherwise its error is raised.
    engine: as in `Session`.
    one_thread: whether the process shares the cores with other ones.
    share: what it counts and asks.
    times: ids of the cells that it times after that. Those that fail while they are counted are left out.
    allowance: for how long it times them.
    number: of the order among those of one command. That of an order that times is also for its random orders.
    stages: of the cells that were counted before, by id: the layers and the budgets.
    """

    study: Study
    command: str = ""
    keep_refusals: bool = False
    engine: str = ""
    one_thread: bool = False
    share: Share | None = None
    times: tuple[str, ...] = ()
    allowance: Allowance | None = None
    number: int = 0
    stages: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = Field(default_factory=dict)
