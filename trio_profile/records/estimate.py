"""One shape for a value with its 95 % interval. The class says the unit; an exact count is a plain `int`.

`--json` keeps the names that scripts rely on: a median of samples is written as `median`, a share of samples as
`share`, everything else as `value`. In Python it is always `.value`.
"""

from typing import ClassVar

from pydantic import AliasChoices, ConfigDict, Field

from trio_profile.records.schema import Record, Stopped

Interval = tuple[float, float]


class Estimate(Record):
    """A value with its 95 % interval.

    value: in the class's `unit`.
    ci95: the interval's two ends.
    samples: how many independent samples it rests on: pairs, questions or documents.
    """

    model_config = ConfigDict(serialize_by_alias=True)
    unit: ClassVar[str] = ""

    value: float
    ci95: Interval
    samples: int


class Measured(Estimate):
    """The median of samples that were taken until a stopping rule said enough.

    stopped: why sampling ended.
    """

    value: float = Field(validation_alias=AliasChoices("value", "median"), serialization_alias="median")
    stopped: Stopped


class Milliseconds(Measured):
    """A duration in milliseconds."""

    unit: ClassVar[str] = "ms"


class Ratio(Measured):
    """A ratio, mostly a speed-up: dense over pruned, above 1 where pruning is faster."""

    unit: ClassVar[str] = "×"


class Nats(Measured):
    """A divergence in nats."""

    unit: ClassVar[str] = "nats"


class Tokens(Measured):
    """A number of tokens."""

    unit: ClassVar[str] = "tokens"


class MeasuredShare(Measured):
    """A share of a measured time, 0 to 1."""

    unit: ClassVar[str] = "share"


class Share(Estimate):
    """A share of samples, 0 to 1, with Wilson's interval."""

    unit: ClassVar[str] = "share"

    value: float = Field(validation_alias=AliasChoices("value", "share"), serialization_alias="share")


class Accuracy(Estimate):
    """The share of questions with a right answer, 0 to 1, with Wilson's interval."""

    unit: ClassVar[str] = "share"


class Difference(Estimate):
    """One accuracy less another over the same questions, −1 to 1, with a paired interval. It is printed in points."""

    unit: ClassVar[str] = "points"


class Correlation(Estimate):
    """A rank correlation, −1 to 1."""

    unit: ClassVar[str] = "correlation"


class Overlap(Estimate):
    """The share that two sets have in common, 0 to 1, averaged over questions."""

    unit: ClassVar[str] = "share"


class Count(Estimate):
    """A number of tokens, averaged over questions."""

    unit: ClassVar[str] = "tokens"
