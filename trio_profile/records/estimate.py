"""A value with its 95 % interval. Its class says the unit. An exact count is a plain `int` and has no class here.

In Python the value is always `.value`. In `--json` a median of samples is called `median`, a share of samples is called
`share`, and any other value is called `value`. Scripts rely on these names.
"""

from pydantic import AliasChoices, ConfigDict, Field

from trio_profile.records.schema import Record, Stopped

Interval = tuple[float, float]


class Estimate(Record):
    """A value with its 95 % interval.

    value: in the unit that the class names.
    ci95: the lower and the upper end of the interval, in the same unit.
    samples: the number of independent samples: pairs, questions or documents.
    """

    model_config = ConfigDict(serialize_by_alias=True)
    value: float
    ci95: Interval
    samples: int


class Measured(Estimate):
    """The median of repeated measurements. With several sessions it is the geometric mean of their medians.

    sessions: number of sessions, each in a process of its own. With one session, the interval does not say how far
        another session may differ.
    stopped: why sampling ended.
    """

    value: float = Field(validation_alias=AliasChoices("value", "median"), serialization_alias="median")
    sessions: int = 1
    stopped: Stopped


class Milliseconds(Measured):
    """A duration in milliseconds."""


class Ratio(Measured):
    """A ratio. A speed-up is dense / pruned: above 1 if pruning is faster."""


class Nats(Measured):
    """A divergence in nats."""


class Tokens(Measured):
    """A number of tokens."""


class MeasuredShare(Measured):
    """A share of a measured time, 0 to 1."""


class Share(Estimate):
    """A share of samples, 0 to 1, with Wilson's interval."""

    value: float = Field(validation_alias=AliasChoices("value", "share"), serialization_alias="share")


class Accuracy(Estimate):
    """The share of questions with a right answer, 0 to 1, with Wilson's interval."""


class Difference(Estimate):
    """One accuracy minus another on the same questions, −1 to 1. The interval is paired by question."""


class OverRounds(Estimate):
    """A value over several rounds: the geometric mean of the rounds' values, with the interval of another study.

    samples: the number of rounds.
    """


class PerSecond(OverRounds):
    """Requests per second."""


class MillisecondsOverRounds(OverRounds):
    """A duration in milliseconds."""


class Gain(OverRounds):
    """How much better pruning is: above 1 if it is better than dense."""
